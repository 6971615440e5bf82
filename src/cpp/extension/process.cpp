#include "extension/process.h"

#include "builtin/builtin.h"
#include "extension/kernel_util/registration.h"
#include "runtime/host/out_of_memory.h"
#include "runtime/platform.h"
#include "threads/message_relay.h"
#include "threads/thread_pool.h"

namespace et::extension {
namespace {

thread_local int t_load_depth = 0;

/// What was said of Process::error: it is met once, and told to every load. No heap, which may have nothing left.
struct Said {
  std::recursive_mutex mutex;  // a hook that is told may load something itself
  threads::MessageRelay lines;
};

Said& said() {
  static Said instance;
  return instance;
}

/// Runs `change` and keeps its error with the messages. Ok takes back that there was no memory, and no other error.
template <typename Change>
void keep_error(Process& shared, Change&& change) {
  const std::lock_guard<std::recursive_mutex> lock(said().mutex);
  const threads::MessageRelay::Task scope(said().lines, 0);
  const Error error = change();
  if (error != Error::Ok || shared.error.load() == Error::MemoryAllocationFailed) {
    shared.error.store(error);
  }
}

/// What EXECUTORCH_LIBRARY has named since the last time: one table, which lives as long as the process.
Error take_registrations(Process& shared) {
  const KernelRegistration* const first = KernelRegistration::take_all();
  if (first == nullptr) {
    return Error::Ok;
  }
  try {
    runtime::List<runtime::Kernel> table;
    for (const KernelRegistration* one = first; one != nullptr; one = one->next()) {
      table.push_back(one->kernel());
    }
    shared.registered.push_back(std::move(table));
  } catch (const std::bad_alloc& fault) {
    KernelRegistration::give_back(first);  // for the next time
    return ET_ERROR_WITH_MESSAGE(MemoryAllocationFailed, "no memory for %s of the kernels of EXECUTORCH_LIBRARY",
                                 runtime::RequestText(fault).text);
  }
  return shared.kernels.add(shared.registered.back(), first->library());
}

}  // namespace

void LoadGate::enter() {
  if (t_load_depth++ != 0) {
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !changing_; });
  ++loads_;
}

void LoadGate::leave() {
  if (--t_load_depth != 0) {
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  --loads_;
  changed_.notify_all();
}

Error LoadGate::lock() {
  ET_CHECK_OR_RETURN(t_load_depth == 0, InvalidState,
                     "kernels and backends cannot be registered while this thread loads a method");
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !changing_ && loads_ == 0; });
  changing_ = true;
  return Error::Ok;
}

void LoadGate::unlock() {
  const std::lock_guard<std::mutex> lock(mutex_);
  changing_ = false;
  changed_.notify_all();
}

Process& process() {
  static Process* const instance = [] {
    runtime::platform_install_default_log();
    alignas(Process) static unsigned char place[sizeof(Process)];  // not the heap, which may have none left
    auto* const made = new (place) Process;
    keep_error(*made, [made] { return builtin::register_all(made->kernels, made->backends); });
    return made;
  }();
  return *instance;
}

runtime::HostOptions process_options() {
  Process& shared = process();
  if (KernelRegistration::any_left() && t_load_depth == 0) {  // a library that dlopen brought may have kernels, too
    static_cast<void>(shared.gate.exclusively([&] {
      keep_error(shared, [&] { return take_registrations(shared); });
      return Error::Ok;
    }));
  }
  runtime::HostOptions options;
  options.kernels = &shared.kernels;
  options.backends = &shared.backends;
  options.pool = threads::default_pool();
  return options;
}

Error process_error() {
  const Error error = process().error.load();
  if (error != Error::Ok) {
    const std::lock_guard<std::recursive_mutex> lock(said().mutex);
    said().lines.finish();
  }
  return error;
}

Error register_kernels(const runtime::KernelTable& table) {
  return process().gate.exclusively([&] { return process().kernels.add(table); });
}

Error register_backend(const char* name, const runtime::BackendInterface* backend) {
  ET_CHECK_OR_RETURN(name != nullptr && backend != nullptr, InvalidArgument, "a backend needs a name and an object");
  return process().gate.exclusively([&] { return process().backends.add(name, backend); });
}

}  // namespace et::extension
