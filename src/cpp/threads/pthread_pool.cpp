// The thread pool on pthreadpool.
//
// One word, `holder_`, says who may use the native pool; it is taken with one compare-and-swap and nobody waits for it.
// What is taken holds the *generation* of the process, a counter that a child of fork() increases: the workers of the
// parent do not exist in the child, so a pool of another generation is forgotten (not destroyed: its threads cannot be
// joined) and made anew, and a hold that another thread of the parent had is void.

#include <pthread.h>
#include <pthreadpool.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "threads/message_relay.h"
#include "threads/native_pool.h"
#include "threads/thread_pool.h"

namespace et::threads {
namespace {

std::atomic<uint32_t> process_generation{1};
std::atomic<bool> fork_handler_installed{false};

void install_fork_handler() {
  if (!fork_handler_installed.exchange(true)) {
    pthread_atfork(nullptr, nullptr, [] { process_generation.fetch_add(1, std::memory_order_relaxed); });
  }
}

/// One loop that the native pool runs.
struct Loop {
  ThreadPool::Task task;
  void* argument;
  MessageRelay messages;
};

void run_task(void* opaque, size_t index) {
  Loop& loop = *static_cast<Loop*>(opaque);
  const MessageRelay::Task scope(loop.messages, index);
  loop.task(loop.argument, index);
}

size_t available_processors() {
  const size_t count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : count;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Calls whose use of the pool begins so soon after the end of the one before belong to a loop.
constexpr int64_t kCloselyNs = 200'000;

}  // namespace

class PthreadPool final : public ThreadPool {
 public:
  constexpr explicit PthreadPool(size_t num_threads) : wanted_(num_threads) {}

  size_t num_threads() const override {
    size_t count = wanted_.load(std::memory_order_relaxed);
    if (count == 0) {
      count = available_processors();
      size_t unset = 0;
      // A set_num_threads meanwhile wins.
      if (!wanted_.compare_exchange_strong(unset, count, std::memory_order_relaxed)) {
        count = unset;
      }
    }
    return count;
  }

  void set_num_threads(size_t count) override {
    wanted_.store(count == 0 ? available_processors() : count, std::memory_order_relaxed);
  }

  void run(size_t count, Task task, void* argument) override {
    pthreadpool* const native = count > 1 ? acquire() : nullptr;
    if (native == nullptr) {
      for (size_t i = 0; i < count; ++i) {
        task(argument, i);
      }
      return;
    }
    Loop loop{task, argument, {}};
    pthreadpool_parallelize_1d(native, &run_task, &loop, count, 0);
    release();
    loop.messages.finish();
  }

  void rest() override {
    // A loop of one task a thread, after which the workers do not wait actively.
    if (native_.load(std::memory_order_relaxed) == nullptr) {
      return;
    }
    if (pthreadpool* const native = acquire()) {
      pthreadpool_parallelize_1d(native, [](void*, size_t) {}, nullptr, num_threads(), PTHREADPOOL_FLAG_YIELD_WORKERS);
      first_use_ns_.store(0, std::memory_order_relaxed);
      release();
    }
  }

  void end_call() override {
    const int64_t first_use = first_use_ns_.load(std::memory_order_relaxed);
    if (first_use == 0) {
      return;
    }
    if (first_use - last_end_ns_.load(std::memory_order_relaxed) < kCloselyNs) {
      first_use_ns_.store(0, std::memory_order_relaxed);
    } else {
      rest();
    }
    last_end_ns_.store(now_ns(), std::memory_order_relaxed);
  }

  /// The native pool, held for the caller; nullptr when there is one thread or somebody holds it.
  pthreadpool* acquire() {
    const size_t count = num_threads();
    if (count == 1) {
      return nullptr;
    }
    const uint32_t generation = process_generation.load(std::memory_order_relaxed);
    uint32_t holder = holder_.load(std::memory_order_relaxed);
    if (holder == generation || !holder_.compare_exchange_strong(holder, generation, std::memory_order_acquire)) {
      return nullptr;
    }
    pthreadpool* native = native_.load(std::memory_order_relaxed);
    if (native == nullptr || made_in_ != generation || made_with_ != count) {
      native = remake(count, generation);
      if (native == nullptr) {
        release();
        return nullptr;
      }
    }
    if (first_use_ns_.load(std::memory_order_relaxed) == 0) {
      first_use_ns_.store(now_ns(), std::memory_order_relaxed);
    }
    return native;
  }

  void release() { holder_.store(0, std::memory_order_release); }

  void shut_down() {
    pthreadpool* const native = native_.load(std::memory_order_relaxed);
    if (native != nullptr && made_in_ == process_generation.load(std::memory_order_relaxed)) {
      pthreadpool_destroy(native);
    }
  }

 private:
  pthreadpool* remake(size_t count, uint32_t generation) {
    shut_down();
    install_fork_handler();
    pthreadpool* const native = pthreadpool_create(count);
    native_.store(native, std::memory_order_relaxed);
    made_in_ = generation;
    made_with_ = count;
    return native;
  }

  mutable std::atomic<size_t> wanted_;         // threads asked for; 0 = not looked up yet
  std::atomic<uint32_t> holder_{0};            // 0 = free, else the generation in which it was taken
  std::atomic<pthreadpool*> native_{nullptr};  // written by the holder only
  uint32_t made_in_ = 0;                       // generation of native_
  size_t made_with_ = 0;                       // threads of native_
  std::atomic<int64_t> first_use_ns_{0};       // since the last call ended or the workers went to rest; 0 = none
  std::atomic<int64_t> last_end_ns_{-kCloselyNs};
};

namespace {
// Constant-initialised and without a destructor: usable before and after every static object of other code.
PthreadPool process_pool(0);
}  // namespace

ThreadPool* default_pool() { return &process_pool; }

ThreadPool* make_pool(size_t num_threads) {
  return new (std::nothrow) PthreadPool(num_threads == 0 ? available_processors() : num_threads);
}

void destroy_pool(ThreadPool* pool) {
  auto* const owned = static_cast<PthreadPool*>(pool);
  if (owned != nullptr) {
    owned->shut_down();
    delete owned;
  }
}

// Every ThreadPool of a build with threads is a PthreadPool: nobody else derives from the interface.
NativePool::NativePool(ThreadPool* pool)
    : pool_(nullptr), native_(pool == nullptr ? nullptr : static_cast<PthreadPool*>(pool)->acquire()) {
  if (native_ != nullptr) {
    pool_ = pool;
  }
}

NativePool::~NativePool() {
  if (pool_ != nullptr) {
    static_cast<PthreadPool*>(pool_)->release();
  }
}

}  // namespace et::threads
