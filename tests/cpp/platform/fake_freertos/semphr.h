#pragma once

#include "FreeRTOS.h"

SemaphoreHandle_t xSemaphoreCreateCounting(UBaseType_t most, UBaseType_t initial);
BaseType_t xSemaphoreGive(SemaphoreHandle_t semaphore);
BaseType_t xSemaphoreTake(SemaphoreHandle_t semaphore, TickType_t ticks);
