/// The process's kernels, backends and pool: what every Module and the Python runtime load programs with.
///
/// For: adding kernels and backends to a running process, and loading programs with HostProgram as Module does. Not
/// for: programs that keep registries of their own; those fill HostOptions themselves.
///
///     ET_RETURN_IF_ERROR(extension::register_kernels(my_ops::kernel_table()));   // an add_kernel_library of the
///     user's ET_TRY(const std::string name, extension::load_plugin("libmy_ops.so"));
///     ET_RETURN_IF_ERROR(extension::register_backend("MyBackend", &backend));
///     HostOptions options = extension::process_options();
///     ET_RETURN_IF_ERROR(extension::process_error());
///
/// Place: the host layer. Nothing below it knows of registries of a process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <string>

#include "runtime/backend.h"
#include "runtime/host/module.h"
#include "runtime/kernel.h"

namespace et::extension {

/// Registries must not change while a method is being loaded. Loads enter as readers, also nested (a backend may load a
/// program of its own); registering waits for all of them.
class LoadGate {
 public:
  void enter();
  void leave();
  /// Runs `change` while nobody loads. Errors: InvalidState when called from inside a load; those of `change`.
  template <typename Change>
  Error exclusively(Change&& change) {
    ET_RETURN_IF_ERROR(lock());
    const Unlock at_end{*this};
    return change();
  }

 private:
  struct Unlock {
    LoadGate& gate;
    ~Unlock() { gate.unlock(); }
  };
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

struct Process {
  runtime::KernelRegistry kernels;
  runtime::BackendRegistry backends;
  LoadGate gate;
  std::list<runtime::List<runtime::Kernel>> registered;  // of EXECUTORCH_LIBRARY, a table each time some were taken
  std::atomic<Error> error{Error::Ok};                   // process_error() tells it
};

/// The one instance, with everything that this build holds registered. Made when it is first used, never
/// destroyed: methods may outlive main(). Threads: safe.
Process& process();

/// The process's kernels, backends and pool of threads. Whether all could be registered, process_error() says.
runtime::HostOptions process_options();

/// What registering came to: what this build holds, and what EXECUTORCH_LIBRARY named. A process that cannot is of no
/// use, but for MemoryAllocationFailed: process_options tries again. Each call logs the error's message, so that every
/// load that fails says why. Threads: safe.
Error process_error();

/// Adds kernels for methods that are loaded from now on. The table must outlive the process's methods.
/// Errors: those of KernelRegistry::add; InvalidState from inside a load. Threads: safe.
Error register_kernels(const runtime::KernelTable& table);

/// Adds a backend, which must outlive the process's methods. Errors: InvalidArgument (null); those of
/// BackendRegistry::add; InvalidState from inside a load. Threads: safe.
Error register_backend(const char* name, const runtime::BackendInterface* backend);

/// Opens a plug-in (runtime/plugin.h), registers what it brings and gives its name. Once more does nothing. Threads:
/// safe. Errors: AccessFailed, no library or a part of one; InvalidArgument, no plug-in; NotSupported, one of another
/// version;
///         those of the registries.
Result<std::string> load_plugin(const std::string& path);

}  // namespace et::extension
