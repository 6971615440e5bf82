/// TaskPool: a ThreadPool on the platform layer's threads, for systems where pthreads are not to be had.
///
/// For: processors with several cores under an RTOS, and one core whose kernels should give way to other tasks.
/// Not for: hosts (threads/thread_pool.h), nor a core that does nothing else: without a pool nothing is shared out.
///
///     static platform::TaskPool pool;
///     ET_RETURN_IF_ERROR(pool.start(1));       // one thread beside the calling one
///     options.pool = &pool;
///
/// Its threads never end, and so must the pool. Messages of tasks come on the thread that runs them.
#pragma once

#include "base/error.h"
#include "threads/thread_pool.h"

namespace et::platform {

class TaskPool final : public threads::ThreadPool {
 public:
  /// Starts `num_workers` threads. Errors: InvalidState when it has been started; NotSupported when the platform has no
  /// threads; OutOfResources when it has no room for more. What was started works then.
  Error start(size_t num_workers);

  size_t num_threads() const override { return num_workers_ + 1; }
  void run(size_t count, Task task, void* argument) override;
  void set_num_threads(size_t) override {}
  void rest() override {}
  void end_call() override {}

 private:
  static void work(void* pool);
  void run_tasks();
  bool take(size_t* index);

  size_t num_workers_ = 0;
  void* begin_ = nullptr;  // signals
  void* done_ = nullptr;
  bool busy_ = false;  // these four in critical sections
  size_t next_ = 0;
  size_t count_ = 0;
  Task task_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace et::platform
