/// Ctrl-C ends a long execution.
///
/// Python's own SIGINT handler only sets a flag that the main thread sees when it runs Python code again, which it
/// does not while it is inside C++. Polling that flag needs the GIL and the main thread. So a handler of ours stands in
/// front of Python's while the main thread calls methods. It cancels the method that runs, then calls Python's. The
/// binding raises KeyboardInterrupt when the call has come back. The first call puts it there, and a watcher thread
/// takes it away after a second without calls, so that a call pays no system call. Where the user installed another
/// handler meanwhile, the watcher puts it in front again once a call has lasted a little.
///
/// Not for: other threads. As in Python itself, signals are the main thread's; Method.cancel() ends calls elsewhere.
#pragma once

#include <pybind11/pybind11.h>

#include "runtime/method.h"

namespace et::bindings {

/// While it lives, SIGINT cancels `method`. Does nothing on threads other than the main one. Nests.
class InterruptScope {
 public:
  explicit InterruptScope(runtime::Method& method);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  bool active_;
  runtime::Method* outer_ = nullptr;
};

/// Notes which thread is the main one. Called with the GIL, at import.
void init_interrupt();

}  // namespace et::bindings
