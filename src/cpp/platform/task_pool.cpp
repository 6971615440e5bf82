#include "platform/task_pool.h"

#include "platform/platform.h"

namespace et::platform {
namespace {

class Critical {
 public:
  Critical() : state_(current().enter_critical()) {}
  ~Critical() { current().leave_critical(state_); }
  Critical(const Critical&) = delete;
  Critical& operator=(const Critical&) = delete;

 private:
  uintptr_t state_;
};

}  // namespace

Error TaskPool::start(size_t num_workers) {
  const Platform& system = current();
  ET_CHECK_OR_RETURN(begin_ == nullptr, InvalidState, "the pool has been started");
  ET_CHECK_OR_RETURN(system.start_thread != nullptr && system.enter_critical != nullptr, NotSupported,
                     "the platform has no threads, or no critical sections");
  if (num_workers == 0) {
    return Error::Ok;
  }
  begin_ = system.make_signal();
  done_ = system.make_signal();
  ET_CHECK_OR_RETURN(begin_ != nullptr && done_ != nullptr, OutOfResources, "no memory for two signals");
  while (num_workers_ < num_workers) {
    ET_CHECK_OR_RETURN(system.start_thread(&TaskPool::work, this), OutOfResources, "no room for thread %zu of %zu",
                       num_workers_ + 1, num_workers);
    ++num_workers_;
  }
  return Error::Ok;
}

void TaskPool::run(size_t count, Task task, void* argument) {
  bool shared = num_workers_ > 0 && count > 1;
  if (shared) {
    const Critical here;
    shared = !busy_;
    if (shared) {
      busy_ = true;
      next_ = 0;
      count_ = count;
      task_ = task;
      argument_ = argument;
    }
  }
  if (!shared) {  // from inside a task, or beside another thread's
    for (size_t i = 0; i < count; ++i) {
      task(argument, i);
    }
    return;
  }
  for (size_t i = 0; i < num_workers_; ++i) {
    current().give(begin_);
  }
  run_tasks();
  for (size_t i = 0; i < num_workers_; ++i) {
    current().wait(done_);
  }
  const Critical here;
  busy_ = false;
}

void TaskPool::work(void* pool) {
  auto* const self = static_cast<TaskPool*>(pool);
  for (;;) {
    current().wait(self->begin_);
    self->run_tasks();
    current().give(self->done_);
  }
}

void TaskPool::run_tasks() {
  for (size_t index = 0; take(&index);) {
    task_(argument_, index);
  }
}

bool TaskPool::take(size_t* index) {
  const Critical here;
  *index = next_;
  next_ += next_ < count_ ? 1 : 0;
  return *index < count_;
}

}  // namespace et::platform
