// Zephyr: ET_MAX_THREADS threads of ET_THREAD_STACK_BYTES, at the starter's priority.
//
// prj.conf needs CONFIG_HEAP_MEM_POOL_SIZE for allocate(), and CONFIG_PRINTK for messages. On several cores Zephyr's
// irq_lock() is global, as the contract wants. Compiled by the application, which has the kernel's headers. Tested
// against a fake of them (tests/cpp/platform), never with the real kernel.
#include <zephyr/kernel.h>

#include "platform/platform.h"

#ifndef ET_MAX_THREADS
#define ET_MAX_THREADS 2
#endif
#ifndef ET_THREAD_STACK_BYTES
#define ET_THREAD_STACK_BYTES 4096
#endif

namespace et::platform {
namespace {

uint64_t now_ns() { return k_ticks_to_ns_floor64(static_cast<uint64_t>(k_uptime_ticks())); }

K_MUTEX_DEFINE(g_writing);

void write(LogLevel, const char* text, size_t length) {
  k_mutex_lock(&g_writing, K_FOREVER);
  printk("%.*s\n", static_cast<int>(length), text);
  k_mutex_unlock(&g_writing);
}

void end() { k_panic(); }

void* allocate(size_t nbytes, size_t alignment) {
  return k_aligned_alloc(alignment < sizeof(void*) ? sizeof(void*) : alignment, nbytes);
}

void free(void* block) { k_free(block); }

uintptr_t enter_critical() { return irq_lock(); }

void leave_critical(uintptr_t key) { irq_unlock(static_cast<unsigned>(key)); }

K_THREAD_STACK_ARRAY_DEFINE(g_stacks, ET_MAX_THREADS, ET_THREAD_STACK_BYTES);
k_thread g_threads[ET_MAX_THREADS];
size_t g_num_threads = 0;

void run_entry(void* function, void* argument, void*) { reinterpret_cast<void (*)(void*)>(function)(argument); }

bool start_thread(void (*function)(void*), void* argument) {
  const uintptr_t key = enter_critical();
  const size_t i = g_num_threads;
  g_num_threads += i < ET_MAX_THREADS ? 1 : 0;
  leave_critical(key);
  if (i == ET_MAX_THREADS) {
    return false;
  }
  k_thread_create(&g_threads[i], g_stacks[i], K_THREAD_STACK_SIZEOF(g_stacks[i]), &run_entry,
                  reinterpret_cast<void*>(function), argument, nullptr, k_thread_priority_get(k_current_get()), 0,
                  K_NO_WAIT);
  return true;
}

void* make_signal() {
  auto* const signal = static_cast<k_sem*>(k_malloc(sizeof(k_sem)));
  if (signal != nullptr) {
    k_sem_init(signal, 0, K_SEM_MAX_LIMIT);
  }
  return signal;
}

void give(void* signal) { k_sem_give(static_cast<k_sem*>(signal)); }

void wait(void* signal) { k_sem_take(static_cast<k_sem*>(signal), K_FOREVER); }

constexpr Platform kPort = {&now_ns,         &write,        &end,         &allocate, &free, &enter_critical,
                            &leave_critical, &start_thread, &make_signal, &give,     &wait};

}  // namespace

const Platform& port() { return kPort; }

}  // namespace et::platform
