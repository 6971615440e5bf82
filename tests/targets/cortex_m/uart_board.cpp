// What port uart asks of a board, on QEMU's MPS2 boards: bytes go to the first CMSDK UART, a reset to the processor.
//
// Stands beside board/cortex_m.cpp in a project of `etpy firmware`; tests/targets/test_firmware_builds.py runs it.
// Source: Arm Cortex-M System Design Kit, Technical Reference Manual, "APB UART".
#include "platform/ports/board.h"

namespace {

volatile uint32_t& register_at(uint32_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }

constexpr uint32_t kUart = 0x40004000;
constexpr uint32_t kData = kUart, kState = kUart + 0x4, kControl = kUart + 0x8, kBaudDivider = kUart + 0x10;
constexpr uint32_t kResetControl = 0xE000ED0C;

}  // namespace

void et_board_put(char byte) {
  register_at(kBaudDivider) = 16;  // the least that it takes
  register_at(kControl) = 1;       // transmits
  while ((register_at(kState) & 1) != 0) {
  }
  register_at(kData) = static_cast<uint8_t>(byte);
}

void et_board_reset() { register_at(kResetControl) = 0x05FA0004; }
