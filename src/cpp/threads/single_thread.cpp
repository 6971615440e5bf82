// The thread pool of a build without threads: everything runs on the calling thread.

#include "threads/native_pool.h"
#include "threads/thread_pool.h"

namespace et::threads {
namespace {

class SingleThread final : public ThreadPool {
 public:
  size_t num_threads() const override { return 1; }
  void set_num_threads(size_t) override {}
  void rest() override {}
  void end_call() override {}
  void run(size_t count, Task task, void* argument) override {
    for (size_t i = 0; i < count; ++i) {
      task(argument, i);
    }
  }
};

SingleThread the_pool;

}  // namespace

ThreadPool* default_pool() { return &the_pool; }
ThreadPool* make_pool(size_t) { return &the_pool; }
void destroy_pool(ThreadPool*) {}

NativePool::NativePool(ThreadPool*) : pool_(nullptr), native_(nullptr) {}
NativePool::~NativePool() = default;

}  // namespace et::threads
