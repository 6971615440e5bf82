/// ThreadPool: the workers that kernels and delegates share.
///
/// For: whoever runs methods (one pool is passed to execute and reaches every kernel and delegate from there) and for
///      kernels, through threads/parallel.h.
/// Not for: work that waits (files, locks): a task computes and ends. Not a queue: run() returns when all tasks are
///          done.
///
///     et::threads::set_num_threads(2);
///     ThreadPool* pool = et::threads::default_pool();       // one per process, made when first used
///     pool->run(8, [](void* sums, size_t i) { static_cast<float*>(sums)[i] = work(i); }, sums);
///
/// Place: above base only. The implementation stands on pthreadpool; a build without threads (ET_BUILD_THREADS=OFF) has
///        the same functions and runs everything on the calling thread.
#pragma once

#include <cstddef>

namespace et::threads {

/// Runs the tasks of one parallel loop. Threads: safe; see run().
class ThreadPool {
 public:
  /// One piece of work. Must not throw and must not depend on the order of the pieces.
  using Task = void (*)(void* argument, size_t index);

  /// How many threads work on a run, the calling one included. At least 1.
  virtual size_t num_threads() const = 0;
  /// Calls task(argument, i) for each i in [0, count), the calling thread taking part, and returns when all are done.
  /// A call from inside a task, or while another thread runs its tasks here, does all its work on the calling thread:
  /// nothing waits for the pool, so nothing can deadlock, and methods that run side by side keep one core each.
  /// Errors that tasks log reach the log hook on the calling thread, when all are done: the last one of the
  /// first task that failed.
  virtual void run(size_t count, Task task, void* argument) = 0;
  /// Sets num_threads; 0 means the processors this process may use. Takes effect with the next run that finds the pool
  /// free.
  virtual void set_num_threads(size_t count) = 0;
  /// Sends the workers to sleep now instead of after some milliseconds of active waiting. For a caller who hands the
  /// processors to another pool (torch's, say) for a while; costs some microseconds at the next run.
  virtual void rest() = 0;
  /// Says that a call of a method, which may have used the pool, is over. Where calls do not follow each other closely
  /// the workers go to sleep at once, as with rest(): waiting actively they would keep a core busy for tens of
  /// milliseconds. Where they do, the workers stay awake for the next one. Costs nothing when no worker has been woken.
  virtual void end_call() = 0;

 protected:
  ~ThreadPool() = default;  // pools are destroyed by who made them, never through the interface
};

/// The process's pool. Lives until the process ends; has no workers before the first run with more than one thread.
/// After fork() the child has a pool of its own, made when it is first used.
ThreadPool* default_pool();
/// default_pool()->set_num_threads(count).
void set_num_threads(size_t count);
/// default_pool()->num_threads().
size_t num_threads();

/// A further pool, for tests and for embedders who keep workloads apart; nullptr when there is no memory.
ThreadPool* make_pool(size_t num_threads);
/// Ends a pool of make_pool. Nothing may be running on it.
void destroy_pool(ThreadPool* pool);

}  // namespace et::threads
