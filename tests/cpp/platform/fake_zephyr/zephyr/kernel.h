// A fake of Zephyr's kernel interface on pthreads, as far as the port uses it. No real kernel has run this.
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include <cstddef>
#include <cstdint>

struct k_thread {
  pthread_t thread;
};
struct k_sem {
  sem_t semaphore;
};
struct k_mutex {
  pthread_mutex_t mutex;
};
using k_tid_t = k_thread*;
using k_thread_entry_t = void (*)(void*, void*, void*);
using k_thread_stack_t = char;
enum k_timeout_t { K_NO_WAIT, K_FOREVER };

#define K_SEM_MAX_LIMIT 0x7fffffffu
#define K_THREAD_STACK_ARRAY_DEFINE(name, count, nbytes) k_thread_stack_t name[count][nbytes]
#define K_THREAD_STACK_SIZEOF(stack) sizeof(stack)
#define K_MUTEX_DEFINE(name) k_mutex name = {PTHREAD_MUTEX_INITIALIZER}

int64_t k_uptime_ticks();
uint64_t k_ticks_to_ns_floor64(uint64_t ticks);
void printk(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void k_panic();
void* k_aligned_alloc(size_t alignment, size_t nbytes);
void* k_malloc(size_t nbytes);
void k_free(void* block);
unsigned irq_lock();
void irq_unlock(unsigned key);
int k_mutex_lock(k_mutex* mutex, k_timeout_t timeout);
int k_mutex_unlock(k_mutex* mutex);
k_tid_t k_current_get();
int k_thread_priority_get(k_tid_t thread);
k_tid_t k_thread_create(k_thread* made, k_thread_stack_t* stack, size_t stack_bytes, k_thread_entry_t entry, void* p1,
                        void* p2, void* p3, int priority, uint32_t options, k_timeout_t delay);
int k_sem_init(k_sem* semaphore, unsigned initial, unsigned most);
void k_sem_give(k_sem* semaphore);
int k_sem_take(k_sem* semaphore, k_timeout_t timeout);
