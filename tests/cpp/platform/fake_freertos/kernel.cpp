// The fake kernel: a task is a pthread, interrupts are one recursive mutex, blocks carry their size.
#include <pthread.h>
#include <semaphore.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "fake.h"
#include "semphr.h"
#include "task.h"

struct FakeSemaphore {
  sem_t semaphore;
};

namespace {

pthread_mutex_t make_recursive() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_t mutex;
  pthread_mutex_init(&mutex, &attributes);
  return mutex;
}

pthread_mutex_t g_interrupts = make_recursive();
pthread_mutex_t g_scheduler = make_recursive();
constexpr size_t kHeapBytes = 64 << 10;  // as small as a board's
size_t g_heap_used = 0;

struct Start {
  void (*code)(void*);
  void* argument;
};

void* begin(void* given) {
  const Start start = *static_cast<Start*>(given);
  std::free(given);
  start.code(start.argument);
  std::fputs("a task returned\n", stderr);
  std::abort();
}

}  // namespace

void fake_enter_critical() { pthread_mutex_lock(&g_interrupts); }
void fake_exit_critical() { pthread_mutex_unlock(&g_interrupts); }
void fake_disable_interrupts() { std::fputs("interrupts are off\n", stderr); }

void* pvPortMalloc(size_t nbytes) {
  fake_enter_critical();
  size_t* block = nullptr;
  if (nbytes <= kHeapBytes && g_heap_used + nbytes <= kHeapBytes) {
    block = static_cast<size_t*>(std::malloc(nbytes + 8));
    *block = nbytes;
    g_heap_used += nbytes;
  }
  fake_exit_critical();
  return block == nullptr ? nullptr : block + 1;
}

void vPortFree(void* block) {
  fake_enter_critical();
  g_heap_used -= static_cast<size_t*>(block)[-1];
  std::free(static_cast<size_t*>(block) - 1);
  fake_exit_critical();
}

size_t fake_heap_used() { return g_heap_used; }

TickType_t xTaskGetTickCount() {  // begins 50 ms before its turn, so that every run sees one
  static const auto start = std::chrono::steady_clock::now();
  const auto passed = std::chrono::steady_clock::now() - start;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(passed).count();
  return static_cast<TickType_t>(0xffffffffu - 50u + static_cast<uint64_t>(ms));
}

void vTaskSuspendAll() { pthread_mutex_lock(&g_scheduler); }
BaseType_t xTaskResumeAll() { return pthread_mutex_unlock(&g_scheduler); }
UBaseType_t uxTaskPriorityGet(TaskHandle_t) { return 3; }

BaseType_t xTaskCreate(void (*code)(void*), const char*, uint32_t stack_words, void* argument, UBaseType_t priority,
                       TaskHandle_t*) {
  pthread_t thread;
  auto* const start = static_cast<Start*>(std::malloc(sizeof(Start)));
  *start = {code, argument};
  if (stack_words <= configMINIMAL_STACK_SIZE || priority != 3 || !fake_may_start() ||
      pthread_create(&thread, nullptr, &begin, start) != 0) {
    std::free(start);
    return 0;
  }
  pthread_detach(thread);
  return pdPASS;
}

void vTaskDelete(TaskHandle_t) { pthread_exit(nullptr); }

SemaphoreHandle_t xSemaphoreCreateCounting(UBaseType_t, UBaseType_t initial) {
  auto* const made = static_cast<FakeSemaphore*>(pvPortMalloc(sizeof(FakeSemaphore)));
  if (made != nullptr) {
    sem_init(&made->semaphore, 0, static_cast<unsigned>(initial));
  }
  return made;
}

BaseType_t xSemaphoreGive(SemaphoreHandle_t semaphore) {
  sem_post(&semaphore->semaphore);
  return pdTRUE;
}

BaseType_t xSemaphoreTake(SemaphoreHandle_t semaphore, TickType_t) {
  return sem_wait(&semaphore->semaphore) == 0 ? pdTRUE : 0;
}
