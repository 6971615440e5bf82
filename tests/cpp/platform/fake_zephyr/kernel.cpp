// The fake kernel: a thread is a pthread, and the key of irq_lock() says whether interrupts were locked before.
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "fake.h"
#include "zephyr/kernel.h"

namespace {

pthread_mutex_t g_interrupts = PTHREAD_MUTEX_INITIALIZER;
thread_local bool g_locked = false;
thread_local k_thread g_own;
constexpr size_t kHeapBytes = 64 << 10;

struct Start {
  k_thread_entry_t entry;
  void* arguments[3];
};

void* begin(void* given) {
  const Start start = *static_cast<Start*>(given);
  std::free(given);
  start.entry(start.arguments[0], start.arguments[1], start.arguments[2]);
  return nullptr;
}

}  // namespace

int64_t k_uptime_ticks() {
  static const auto start = std::chrono::steady_clock::now();
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count() / 100;
}
uint64_t k_ticks_to_ns_floor64(uint64_t ticks) { return ticks * 100000u; }

void printk(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
}
void k_panic() { std::abort(); }

void* k_aligned_alloc(size_t alignment, size_t nbytes) {
  const bool is_right = alignment >= sizeof(void*) && (alignment & (alignment - 1)) == 0;
  return is_right && nbytes <= kHeapBytes ? std::aligned_alloc(alignment, (nbytes + alignment - 1) & ~(alignment - 1))
                                          : nullptr;
}
void* k_malloc(size_t nbytes) { return k_aligned_alloc(sizeof(void*), nbytes); }
void k_free(void* block) { std::free(block); }

unsigned irq_lock() {
  const unsigned key = g_locked ? 1 : 0;
  if (!g_locked) {
    pthread_mutex_lock(&g_interrupts);
    g_locked = true;
  }
  return key;
}
void irq_unlock(unsigned key) {
  if (key == 0) {
    g_locked = false;
    pthread_mutex_unlock(&g_interrupts);
  }
}
int k_mutex_lock(k_mutex* mutex, k_timeout_t) { return pthread_mutex_lock(&mutex->mutex); }
int k_mutex_unlock(k_mutex* mutex) { return pthread_mutex_unlock(&mutex->mutex); }
k_tid_t k_current_get() { return &g_own; }
int k_thread_priority_get(k_tid_t) { return 7; }

k_tid_t k_thread_create(k_thread* made, k_thread_stack_t* stack, size_t stack_bytes, k_thread_entry_t entry, void* p1,
                        void* p2, void* p3, int priority, uint32_t, k_timeout_t) {
  if (stack == nullptr || stack_bytes < 1024 || priority != 7) {
    std::abort();
  }
  auto* const start = static_cast<Start*>(std::malloc(sizeof(Start)));
  *start = {entry, {p1, p2, p3}};
  pthread_create(&made->thread, nullptr, &begin, start);
  pthread_detach(made->thread);
  return made;
}

int k_sem_init(k_sem* semaphore, unsigned initial, unsigned) { return sem_init(&semaphore->semaphore, 0, initial); }
void k_sem_give(k_sem* semaphore) { sem_post(&semaphore->semaphore); }
int k_sem_take(k_sem* semaphore, k_timeout_t) { return sem_wait(&semaphore->semaphore); }
