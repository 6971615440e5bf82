// What both ports for a Cortex-M without an operating system have: interrupts that wait, and a reset.
#pragma once

#include <cstdint>

namespace et::platform {

inline uintptr_t enter_critical() {
  uint32_t mask;
  __asm volatile("mrs %0, primask\n cpsid i" : "=r"(mask) : : "memory");
  return mask;
}

inline void leave_critical(uintptr_t mask) {
  __asm volatile("msr primask, %0" : : "r"(static_cast<uint32_t>(mask)) : "memory");
}

}  // namespace et::platform
