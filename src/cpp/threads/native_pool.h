/// NativePool: the pthreadpool behind a ThreadPool, for libraries that take a pthreadpool_t.
///
/// For: kernels and delegates that stand on such a library, so that they use the same workers as everything else.
/// Not for: our own loops (threads/parallel.h).
///
///     NativePool native(context.pool());                // holds the pool until the end of the scope
///     library_run(op, native.get());                    // nullptr = the calling thread alone
#pragma once

#include "threads/thread_pool.h"

struct pthreadpool;

namespace et::threads {

/// Holds a pool for the duration of a scope. get() is nullptr, which such libraries take for "run on this thread", when
/// the pool has one thread, is in use by another thread or by a task further up, or was nullptr.
/// Threads: stays on the thread that made it. Cost: nothing for one thread, else two atomic operations.
class NativePool {
 public:
  explicit NativePool(ThreadPool* pool);
  ~NativePool();
  NativePool(const NativePool&) = delete;
  NativePool& operator=(const NativePool&) = delete;

  pthreadpool* get() const { return native_; }

 private:
  [[maybe_unused]] ThreadPool* pool_;  // the pool to give back, nullptr when none is held
  pthreadpool* native_;
};

}  // namespace et::threads
