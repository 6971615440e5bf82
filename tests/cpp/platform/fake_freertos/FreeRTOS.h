// A fake of FreeRTOS's interface on pthreads, as far as the port uses it. No real kernel has run this.
#pragma once

#include <cstddef>
#include <cstdint>

using TickType_t = uint32_t;
using BaseType_t = long;
using UBaseType_t = unsigned long;
using TaskHandle_t = struct FakeTask*;
using SemaphoreHandle_t = struct FakeSemaphore*;

#define configTICK_RATE_HZ 1000
#define configMINIMAL_STACK_SIZE 128
#define pdTRUE 1
#define pdPASS 1
#define portMAX_DELAY 0xffffffffu
#define taskENTER_CRITICAL() fake_enter_critical()
#define taskEXIT_CRITICAL() fake_exit_critical()
#define taskDISABLE_INTERRUPTS() fake_disable_interrupts()

void fake_enter_critical();
void fake_exit_critical();
void fake_disable_interrupts();
void* pvPortMalloc(size_t nbytes);
void vPortFree(void* block);
