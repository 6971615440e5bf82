// POSIX: Linux, and whatever has pthreads and a monotonic clock.
#include <pthread.h>
#include <semaphore.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "platform/platform.h"

namespace et::platform {
namespace {

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void write(LogLevel level, const char* text, size_t length) {
  std::fprintf(stderr, "%c %.*s\n", "DIWEE"[static_cast<size_t>(level)], static_cast<int>(length), text);
}

void* allocate(size_t nbytes, size_t alignment) {
  void* block = nullptr;
  return posix_memalign(&block, alignment < sizeof(void*) ? sizeof(void*) : alignment, nbytes) == 0 ? block : nullptr;
}

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
thread_local uintptr_t g_depth = 0;

uintptr_t enter_critical() {
  if (g_depth == 0) {
    pthread_mutex_lock(&g_mutex);
  }
  return g_depth++;
}

void leave_critical(uintptr_t depth) {
  g_depth = depth;
  if (depth == 0) {
    pthread_mutex_unlock(&g_mutex);
  }
}

struct Entry {
  void (*function)(void*);
  void* argument;
};

void* run_entry(void* given) {
  const Entry entry = *static_cast<Entry*>(given);
  std::free(given);
  entry.function(entry.argument);
  return nullptr;
}

bool start_thread(void (*function)(void*), void* argument) {
  auto* const entry = static_cast<Entry*>(std::malloc(sizeof(Entry)));
  if (entry == nullptr) {
    return false;
  }
  *entry = {function, argument};
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &run_entry, entry) != 0) {
    std::free(entry);
    return false;
  }
  pthread_detach(thread);
  return true;
}

void* make_signal() {
  auto* const signal = static_cast<sem_t*>(std::malloc(sizeof(sem_t)));
  if (signal != nullptr) {
    sem_init(signal, 0, 0);
  }
  return signal;
}

void give(void* signal) { sem_post(static_cast<sem_t*>(signal)); }

void wait(void* signal) {
  while (sem_wait(static_cast<sem_t*>(signal)) != 0 && errno == EINTR) {
  }
}

constexpr Platform kPort = {&now_ns,         &write,        &std::abort,  &allocate, &std::free, &enter_critical,
                            &leave_critical, &start_thread, &make_signal, &give,     &wait};

}  // namespace

const Platform& port() { return kPort; }

}  // namespace et::platform
