/// WorkerPool: threads that share the indices of a loop with the thread that starts it.
///
/// For: shared_pool.cpp, which hands it to one caller at a time, and pthreadpool_api.cpp, through which kernel
/// libraries use it. Not for: kernels (threads/parallel.h). Not a queue: there is one loop at a time.
///
///     WorkerPool* pool = WorkerPool::create(2);                  // the caller and one worker
///     pool->run(8, [](void* sums, size_t thread, size_t i) { … }, sums, /*flush_denormals=*/false);
///
/// The thread that starts a loop never waits for a worker to arrive. Every thread has a share of the indices and takes
/// from the shares of others when its own is done. When none is left the loop closes; a thread that has not come by
/// then comes to the next one. So a worker that the system does not schedule (a busy machine, a thread that was just
/// created, a virtual processor that sleeps) costs nothing but its help. pthreadpool, whose interface
/// pthreadpool_api.cpp provides, begins and ends each loop with all workers; with another program on the second of two
/// cores a call of MobileNetV2 took 2 to 130 ms there instead of 4.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace et::threads {

class WorkerPool {
 public:
  /// One index of a loop. `thread` is below num_threads(), and no two calls with the same one run at the same time.
  using Body = void (*)(void* context, size_t thread, size_t index);

  /// A pool with num_threads - 1 workers, or as many as the system gives. Returns nullptr when there is no memory.
  static WorkerPool* create(size_t num_threads);
  /// Ends and joins the workers and frees the pool. Nothing may be running on it.
  void destroy();

  size_t num_threads() const { return num_threads_; }

  /// Calls body(context, thread, i) for each i in [0, count), here and on the workers; returns when all calls have
  /// returned. With `flush_denormals` the processor takes subnormal floats for zero meanwhile, if it can (RISC-V and
  /// WebAssembly cannot). Threads: one caller at a time, and not from inside a body.
  void run(size_t count, Body body, void* context, bool flush_denormals);
  /// The same on the calling thread alone, without a pool.
  static void run_here(size_t count, Body body, void* context, bool flush_denormals);
  /// Sends the workers to sleep until the next run, instead of waiting actively for it for a while.
  void rest() { is_resting_.store(true, std::memory_order_relaxed); }

 private:
  /// What one thread does of a loop before it helps others.
  struct alignas(64) Share {
    std::atomic<size_t> next{0};
    size_t end = 0;
  };
  struct Worker {
    WorkerPool* pool;
    size_t thread;
    pthread_t handle;
  };

  WorkerPool(size_t num_threads, Share* shares, Worker* workers)
      : num_threads_(num_threads), shares_(shares), workers_(workers) {}
  ~WorkerPool() = default;

  static void* worker_main(void* worker);
  void serve(size_t thread);
  /// The state with a loop that is newer than `seen`; without a loop when the pool ends.
  uint64_t wait_for_loop(uint64_t seen);
  void work(size_t thread);

  const size_t num_threads_;
  size_t num_workers_ = 0;  // threads that could be made
  Share* const shares_;     // [num_threads]
  Worker* const workers_;   // [num_threads - 1]

  // The loop. Written by the caller of run() while no worker is in it.
  Body body_ = nullptr;
  void* context_ = nullptr;
  size_t num_shares_ = 0;
  bool flush_denormals_ = false;

  /// Number of the loop in the upper half, whether it takes workers, and how many are in it.
  alignas(64) std::atomic<uint64_t> state_{0};
  std::atomic<bool> is_resting_{false};
  std::atomic<bool> is_ending_{false};
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace et::threads
