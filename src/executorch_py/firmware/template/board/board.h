/// What the program asks of its board: a place for text, an end, a counter, and how deep the stack went.
///
/// For: main.cpp. A product replaces board/ by its own start-up code and linker script; the runtime needs neither.
#pragma once

#include <cstddef>
#include <cstdint>

namespace board {

/// Writes text where a developer reads it: the debugger (semihosting) on a board, stdout on a host.
void write(const char* text);

/// Ends the program: under QEMU with this exit status.
[[noreturn]] void exit(int status);

/// Instructions since the start, under `qemu-system-arm -icount shift=5`; 0 on a host.
uint64_t instructions();

/// Fills the unused part of the stack with a pattern, so that stack_used() counts from here.
void paint_stack();
/// The most bytes of stack that were in use since paint_stack(), of this function's caller and what it called.
size_t stack_used();

}  // namespace board
