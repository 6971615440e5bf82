/// The process's runtime: the kernels and backends that programs may use, and the gate that keeps registering and
/// loading apart.
///
/// For: the bindings of programs and methods. Place: bindings only; C++ applications make registries of their own.
#pragma once

#include <condition_variable>
#include <mutex>

#include "runtime/backend.h"
#include "runtime/host/module.h"
#include "runtime/kernel.h"

namespace et::bindings {

/// Registries must not change while a method is being loaded. Loads enter as readers, also nested (a backend written in
/// Python may load a program of its own); registering waits for all of them.
class LoadGate {
 public:
  void enter();
  void leave();
  /// Runs `change` while nobody loads. Errors: InvalidState when called from inside a load; those of `change`.
  template <typename Change>
  Error exclusively(Change&& change) {
    ET_RETURN_IF_ERROR(lock());
    const Error error = change();
    unlock();
    return error;
  }

 private:
  Error lock();
  void unlock();

  std::mutex mutex_;
  std::condition_variable changed_;
  int loads_ = 0;
  bool changing_ = false;
};

/// A load, for the time of a scope.
class LoadScope {
 public:
  explicit LoadScope(LoadGate& gate) : gate_(gate) { gate_.enter(); }
  ~LoadScope() { gate_.leave(); }
  LoadScope(const LoadScope&) = delete;
  LoadScope& operator=(const LoadScope&) = delete;

 private:
  LoadGate& gate_;
};

struct ProcessRuntime {
  runtime::KernelRegistry kernels;
  runtime::BackendRegistry backends;
  LoadGate gate;

  /// What programs are loaded with.
  runtime::HostOptions options();
};

/// The one instance, with everything that this build holds registered. Never destroyed: methods may outlive main().
/// Errors (CoreError): those of the registries.
ProcessRuntime& process_runtime();

}  // namespace et::bindings
