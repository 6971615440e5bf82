// The pool that callers share, on a WorkerPool.
//
// One word, `holder_`, says who may use the workers; it is taken with one compare-and-swap and nobody waits for it.
// What is taken holds the *generation* of the process, a counter that a child of fork() increases. The workers of the
// parent do not exist in the child. So a WorkerPool of another generation is forgotten (not destroyed: its threads
// cannot be joined) and made anew, and a hold that another thread of the parent had is void.

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

#include "threads/message_relay.h"
#include "threads/native_pool.h"
#include "threads/thread_pool.h"
#include "threads/worker_pool.h"

namespace et::threads {
namespace {

std::atomic<uint32_t> process_generation{1};
std::atomic<bool> fork_handler_installed{false};

/// False when there is no memory for it.
bool install_fork_handler() {
  if (fork_handler_installed.exchange(true)) {
    return true;
  }
  const int error =
      pthread_atfork(nullptr, nullptr, [] { process_generation.fetch_add(1, std::memory_order_relaxed); });
  fork_handler_installed.store(error == 0);
  return error == 0;
}

/// One loop that the workers run.
struct Loop {
  ThreadPool::Task task;
  void* argument;
  MessageRelay messages;
};

void run_task(void* opaque, size_t, size_t index) {
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

class SharedPool final : public ThreadPool {
 public:
  constexpr explicit SharedPool(size_t num_threads) : wanted_(num_threads) {}

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
    WorkerPool* const workers = count > 1 ? acquire() : nullptr;
    if (workers == nullptr) {
      for (size_t i = 0; i < count; ++i) {
        task(argument, i);
      }
      return;
    }
    Loop loop{task, argument, {}};
    workers->run(count, &run_task, &loop, false);
    release();
    loop.messages.finish();
  }

  void rest() override {
    if (workers_.load(std::memory_order_relaxed) == nullptr) {
      return;
    }
    if (WorkerPool* const workers = acquire()) {
      workers->rest();
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

  /// The workers, held for the caller; nullptr when there is one thread or the workers are held.
  WorkerPool* acquire() {
    const size_t count = num_threads();
    if (count == 1) {
      return nullptr;
    }
    const uint32_t generation = process_generation.load(std::memory_order_relaxed);
    uint32_t holder = holder_.load(std::memory_order_relaxed);
    if (holder == generation || !holder_.compare_exchange_strong(holder, generation, std::memory_order_acquire)) {
      return nullptr;
    }
    WorkerPool* workers = workers_.load(std::memory_order_relaxed);
    if (workers == nullptr || made_in_ != generation || made_with_ != count) {
      workers = remake(count, generation);
      if (workers == nullptr) {
        release();
        return nullptr;
      }
    }
    if (first_use_ns_.load(std::memory_order_relaxed) == 0) {
      first_use_ns_.store(now_ns(), std::memory_order_relaxed);
    }
    return workers;
  }

  void release() { holder_.store(0, std::memory_order_release); }

  void shut_down() {
    WorkerPool* const workers = workers_.load(std::memory_order_relaxed);
    if (workers != nullptr && made_in_ == process_generation.load(std::memory_order_relaxed)) {
      workers->destroy();
    }
  }

 private:
  WorkerPool* remake(size_t count, uint32_t generation) {
    shut_down();
    WorkerPool* const workers = install_fork_handler() ? WorkerPool::create(count) : nullptr;
    workers_.store(workers, std::memory_order_relaxed);
    made_in_ = generation;
    made_with_ = count;
    return workers;
  }

  mutable std::atomic<size_t> wanted_;         // threads requested; 0 = not looked up yet
  std::atomic<uint32_t> holder_{0};            // 0 = free, else the generation in which it was taken
  std::atomic<WorkerPool*> workers_{nullptr};  // written by the holder only
  uint32_t made_in_ = 0;                       // generation of workers_
  size_t made_with_ = 0;                       // threads of workers_
  std::atomic<int64_t> first_use_ns_{0};       // since the last call ended or the workers went to rest; 0 = none
  std::atomic<int64_t> last_end_ns_{-kCloselyNs};
};

namespace {
// Constant-initialised and without a destructor: usable before and after every static object of other code.
SharedPool process_pool(0);
}  // namespace

ThreadPool* default_pool() { return &process_pool; }

ThreadPool* make_pool(size_t num_threads) {
  return new (std::nothrow) SharedPool(num_threads == 0 ? available_processors() : num_threads);
}

void destroy_pool(ThreadPool* pool) {
  auto* const owned = static_cast<SharedPool*>(pool);
  if (owned != nullptr) {
    owned->shut_down();
    delete owned;
  }
}

// Every ThreadPool of a build with threads is a SharedPool: nobody else derives from the interface.
NativePool::NativePool(ThreadPool* pool)
    : pool_(nullptr),
      native_(pool == nullptr ? nullptr : reinterpret_cast<pthreadpool*>(static_cast<SharedPool*>(pool)->acquire())) {
  if (native_ != nullptr) {
    pool_ = pool;
  }
}

NativePool::~NativePool() {
  if (pool_ != nullptr) {
    static_cast<SharedPool*>(pool_)->release();
  }
}

}  // namespace et::threads
