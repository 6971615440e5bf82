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

/// While it stands, loops that such a library runs from this thread look before each piece, and leave out what follows
/// once the answer is true. For calls whose results are not read then; never where a library packs weights, which stay.
/// Threads: stays on the thread that made it; workers look, too. Cost: a load and the check for each piece.
class StopScope {
 public:
  using Question = bool (*)(const void* context);

  StopScope(Question question, const void* context);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  bool stops() const { return question_(context_); }
  /// The innermost one of this thread; nullptr: there is none.
  static const StopScope* current();

 private:
  Question question_;
  const void* context_;
  const StopScope* outer_;
};

}  // namespace et::threads
