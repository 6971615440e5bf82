#pragma once

#include "FreeRTOS.h"

TickType_t xTaskGetTickCount();
void vTaskSuspendAll();
BaseType_t xTaskResumeAll();
UBaseType_t uxTaskPriorityGet(TaskHandle_t task);
BaseType_t xTaskCreate(void (*code)(void*), const char* name, uint32_t stack_words, void* argument,
                       UBaseType_t priority, TaskHandle_t* created);
void vTaskDelete(TaskHandle_t task);
