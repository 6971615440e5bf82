/// What a board defines for the ports that cannot know it: where bytes go, what time it is, how it begins anew.
///
/// For: ports uart and freertos. Not for: other code; it calls platform::current().
///
///     void et_board_put(char byte) {
///       while ((UART->STATUS & FULL) != 0) {
///       }
///       UART->DATA = byte;
///     }
#pragma once

#include <cstdint>

extern "C" {

/// Sends one byte; returns when it is on its way. Port uart needs it, port freertos takes it where it is.
void et_board_put(char byte);
/// Nanoseconds of a clock that never goes back. Optional, port uart.
uint64_t et_board_now_ns();
/// Resets the processor. Optional; without it the processor stands still, and a watchdog resets it.
void et_board_reset();
}
