// FreeRTOS: threads are tasks of configMINIMAL_STACK_SIZE + ET_TASK_STACK_WORDS words, at the starter's priority.
//
// FreeRTOSConfig.h needs configUSE_COUNTING_SEMAPHORES and configSUPPORT_DYNAMIC_ALLOCATION, and a tick interrupt.
// Nothing here may be called from an interrupt. Compiled by the application, which has the kernel's headers. Tested
// against a fake of them (tests/cpp/platform), never with the real kernel.
#include <FreeRTOS.h>
#include <semphr.h>
#include <task.h>

#include "platform/platform.h"
#include "platform/ports/board.h"

#pragma weak et_board_put
#pragma weak et_board_reset

#ifndef ET_TASK_STACK_WORDS
#define ET_TASK_STACK_WORDS 1024
#endif

namespace et::platform {
namespace {

uintptr_t enter_critical() {
  taskENTER_CRITICAL();  // counts how deep it is
  return 0;
}

void leave_critical(uintptr_t) { taskEXIT_CRITICAL(); }

/// The tick counter with the turns that it has made; it must be read once a turn.
uint64_t now_ns() {
  static TickType_t last = 0;
  static uint64_t turns = 0;
  taskENTER_CRITICAL();
  const TickType_t ticks = xTaskGetTickCount();
  turns += ticks < last ? 1 : 0;
  last = ticks;
  const uint64_t range = uint64_t{static_cast<TickType_t>(~TickType_t{0})} + 1;  // 0 where ticks have 64 bits
  const uint64_t all = turns * range + ticks;
  taskEXIT_CRITICAL();
  return all * (1000000000u / configTICK_RATE_HZ);
}

void write(LogLevel, const char* text, size_t length) {
  if (et_board_put == nullptr) {
    return;
  }
  vTaskSuspendAll();  // no other task's text in between; interrupts go on
  for (size_t i = 0; i < length; ++i) {
    et_board_put(text[i]);
  }
  et_board_put('\r');
  et_board_put('\n');
  xTaskResumeAll();
}

void end() {
  taskDISABLE_INTERRUPTS();
  if (et_board_reset != nullptr) {
    et_board_reset();
  }
}

/// In front of each block: where pvPortMalloc had it.
void* allocate(size_t nbytes, size_t alignment) {
  const size_t aligned = alignment < sizeof(void*) ? sizeof(void*) : alignment;
  const size_t extra = sizeof(void*) + aligned - 1;
  void* const whole = nbytes > SIZE_MAX - extra ? nullptr : pvPortMalloc(nbytes + extra);
  if (whole == nullptr) {
    return nullptr;
  }
  const uintptr_t at = (reinterpret_cast<uintptr_t>(whole) + extra) & ~uintptr_t{aligned - 1};
  reinterpret_cast<void**>(at)[-1] = whole;
  return reinterpret_cast<void*>(at);
}

void free(void* block) {
  if (block != nullptr) {
    vPortFree(static_cast<void**>(block)[-1]);
  }
}

struct Entry {
  void (*function)(void*);
  void* argument;
};

void run_entry(void* given) {
  const Entry entry = *static_cast<Entry*>(given);
  vPortFree(given);
  entry.function(entry.argument);
  vTaskDelete(nullptr);  // a task must not return
}

bool start_thread(void (*function)(void*), void* argument) {
  auto* const entry = static_cast<Entry*>(pvPortMalloc(sizeof(Entry)));
  if (entry == nullptr) {
    return false;
  }
  *entry = {function, argument};
  const UBaseType_t priority = uxTaskPriorityGet(nullptr);
  if (xTaskCreate(&run_entry, "executorch", configMINIMAL_STACK_SIZE + ET_TASK_STACK_WORDS, entry, priority, nullptr) !=
      pdPASS) {
    vPortFree(entry);
    return false;
  }
  return true;
}

void* make_signal() { return xSemaphoreCreateCounting(UINT16_MAX, 0); }

void give(void* signal) { xSemaphoreGive(static_cast<SemaphoreHandle_t>(signal)); }

void wait(void* signal) {
  while (xSemaphoreTake(static_cast<SemaphoreHandle_t>(signal), portMAX_DELAY) != pdTRUE) {
  }
}

constexpr Platform kPort = {&now_ns,         &write,        &end,         &allocate, &free, &enter_critical,
                            &leave_critical, &start_thread, &make_signal, &give,     &wait};

}  // namespace

const Platform& port() { return kPort; }

}  // namespace et::platform
