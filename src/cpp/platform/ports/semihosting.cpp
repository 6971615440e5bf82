// A Cortex-M without an operating system, under a debugger or in an emulator: text and the end go through semihosting.
// No clock, no memory, no threads: a board adds its own with install().
#include <cstring>

#include "platform/platform.h"
#include "platform/ports/cortex_m.h"

namespace et::platform {
namespace {

void semihost(int operation, const void* argument) {
  register int r0 __asm("r0") = operation;
  register const void* r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void write(LogLevel, const char* text, size_t length) {
  char part[65];
  for (size_t at = 0; at <= length; at += sizeof(part) - 1) {
    const size_t left = length - at;
    const size_t kept = left < sizeof(part) - 1 ? left : sizeof(part) - 1;
    memcpy(part, text + at, kept);
    part[kept] = '\0';
    if (kept < sizeof(part) - 1) {
      part[kept] = '\n';
      part[kept + 1] = '\0';
    }
    semihost(0x04, part);  // SYS_WRITE0
  }
}

void end() {
  const uint32_t arguments[2] = {0x20023, 1};  // ADP_Stopped_RunTimeErrorUnknown
  semihost(0x20, arguments);                   // SYS_EXIT_EXTENDED
  for (;;) {
  }
}

constexpr Platform kPort = {nullptr,         &write,  &end,    nullptr, nullptr, &enter_critical,
                            &leave_critical, nullptr, nullptr, nullptr, nullptr};

}  // namespace

const Platform& port() { return kPort; }

}  // namespace et::platform
