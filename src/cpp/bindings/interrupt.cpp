#include "bindings/interrupt.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>

namespace py = pybind11;

namespace et::bindings {
namespace {

using runtime::Method;

/// A call that lasts longer than one to two ticks gets the handler where another one took its place.
constexpr std::chrono::milliseconds kTick{50};
/// After so many ticks without a call the watcher takes the handler away, and sleeps until the next one.
constexpr int kIdleTicks = 20;

// What the handler reads: only atomics, because it may interrupt anything.
std::atomic<Method*> g_running{nullptr};
std::atomic<int> g_handlers_inside{0};
struct sigaction g_previous;  // Python's; written before our handler is installed

// What the main thread and the watcher share.
std::atomic<uint64_t> g_calls{0};
std::atomic<bool> g_is_awake{false};  // calls since the last rest have asked for the handler
std::atomic<bool> g_watcher_sleeps{false};
bool g_watcher_started = false;  // main thread only
pthread_t g_main_thread;

/// Guards installing and removing the handler, and the watcher's sleep. Never destroyed: the watcher outlives main().
struct Lock {
  std::mutex mutex;
  std::condition_variable wake;
};
alignas(Lock) unsigned char g_lock_memory[sizeof(Lock)];
Lock& lock() { return *std::launder(reinterpret_cast<Lock*>(g_lock_memory)); }

void on_interrupt(int number, siginfo_t* info, void* context) {
  g_handlers_inside.fetch_add(1);
  if (Method* const method = g_running.load(); method != nullptr) {
    method->cancel();
  }
  g_handlers_inside.fetch_sub(1);
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(number, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(number);
  }
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &on_interrupt;
}

/// Puts our handler in front. Not where SIGINT is ignored or ends the process: then that is what shall happen.
void install() {
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) != 0 || is_ours(current)) {
    return;
  }
  if ((current.sa_flags & SA_SIGINFO) == 0 && (current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN)) {
    return;
  }
  g_previous = current;
  struct sigaction ours = current;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = &on_interrupt;
  sigaction(SIGINT, &ours, nullptr);
}

/// Puts back what was there, unless another handler was installed meanwhile.
void remove() {
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) == 0 && is_ours(current)) {
    sigaction(SIGINT, &g_previous, nullptr);
  }
}

void watch() {
  uint64_t seen = 0;
  int idle = 0;
  for (;;) {
    std::this_thread::sleep_for(kTick);
    const uint64_t calls = g_calls.load();
    const bool running = g_running.load() != nullptr;
    if (running && calls == seen) {
      const std::lock_guard<std::mutex> guard(lock().mutex);
      if (g_running.load() != nullptr && g_calls.load() == seen) {
        install();
      }
    }
    idle = running || calls != seen ? 0 : idle + 1;
    seen = calls;
    if (idle >= kIdleTicks) {
      std::unique_lock<std::mutex> guard(lock().mutex);
      if (g_running.load() == nullptr) {
        remove();
        g_is_awake.store(false);
      }
      g_watcher_sleeps.store(true);
      lock().wake.wait(guard, [&] { return g_calls.load() != seen; });
      g_watcher_sleeps.store(false);
      idle = 0;
    }
  }
}

/// Starts the watcher with signals blocked, so that the process's signals keep going to its own threads. Not that of
/// breakpoints, which a thread causes itself: blocked, it ends the process.
void start_watcher() {
  g_watcher_started = true;
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGTRAP);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(&watch).detach();
  } catch (const std::system_error&) {
    // No thread to be had: Ctrl-C then waits for the end of the call, as it does in any C function.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// In a forked child only the forking thread lives on: it is Python's new main thread, and there is no watcher.
void after_fork_in_child() {
  new (g_lock_memory) Lock;
  g_main_thread = pthread_self();
  g_watcher_started = false;
  g_watcher_sleeps.store(false);
  g_is_awake.store(false);
  g_handlers_inside.store(0);
}

}  // namespace

InterruptScope::InterruptScope(Method& method) : active_(pthread_equal(pthread_self(), g_main_thread) != 0) {
  if (!active_) {
    return;
  }
  if (!g_watcher_started) {
    start_watcher();
  }
  outer_ = g_running.exchange(&method);
  if (!g_is_awake.load()) {
    const std::lock_guard<std::mutex> guard(lock().mutex);
    install();
    g_is_awake.store(true);
  }
  g_calls.fetch_add(1);
  if (g_watcher_sleeps.load()) {
    const std::lock_guard<std::mutex> guard(lock().mutex);
    lock().wake.notify_one();
  }
}

InterruptScope::~InterruptScope() {
  if (!active_) {
    return;
  }
  g_running.store(outer_);
  while (g_handlers_inside.load() != 0) {  // a handler on another thread may still hold the method
  }
}

void init_interrupt() {
  new (g_lock_memory) Lock;
  // threading knows the main thread also when this module is imported by another one.
  g_main_thread = static_cast<pthread_t>(
      py::cast<unsigned long>(py::module_::import("threading").attr("main_thread")().attr("ident")));
  pthread_atfork(nullptr, nullptr, &after_fork_in_child);
}

}  // namespace et::bindings
