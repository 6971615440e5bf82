// A Cortex-M without an operating system and with a serial line: the board writes bytes, counts time and resets.
//
// A board defines the functions of platform/ports/board.h; all but the first may be left out.
#include "platform/platform.h"
#include "platform/ports/board.h"

// A Cortex-A under Linux is another matter: its interrupts are the system's.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define ET_IS_CORTEX_M 1
#include "platform/ports/cortex_m.h"
#endif

#pragma weak et_board_now_ns
#pragma weak et_board_reset

namespace et::platform {
namespace {

#ifndef ET_IS_CORTEX_M  // a test on a host: one thread, nothing that interrupts it
uintptr_t enter_critical() { return 0; }
void leave_critical(uintptr_t) {}
#endif

uint64_t now_ns() { return et_board_now_ns == nullptr ? 0 : et_board_now_ns(); }

void write(LogLevel, const char* text, size_t length) {
  const uintptr_t state = enter_critical();  // messages of interrupts come before or behind this one
  for (size_t i = 0; i < length; ++i) {
    et_board_put(text[i]);
  }
  et_board_put('\r');
  et_board_put('\n');
  leave_critical(state);
}

void end() {
  if (et_board_reset != nullptr) {
    et_board_reset();
  }
}

constexpr Platform kPort = {&now_ns,         &write,  &end,    nullptr, nullptr, &enter_critical,
                            &leave_critical, nullptr, nullptr, nullptr, nullptr};

}  // namespace

const Platform& port() { return kPort; }

}  // namespace et::platform
