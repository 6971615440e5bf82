/// What the program needs of its board: a place for text, an end, a counter, and how deep the stack went.
///
/// For: main.cpp. A product replaces board/ by its own start-up code and linker script; the runtime needs neither.
#pragma once

#include <cstddef>
#include <cstdint>

namespace board {

/// Writes text where a developer reads it: the debugger (semihosting) on a board, stdout on a host.
void write(const char* text);

/// number / divisor, and what is left of it. Bit by bit: the compiler's division of 64 bits takes 0.9 KB.
inline uint64_t divide(uint64_t number, uint32_t divisor, uint32_t* rest) {
  uint64_t left = 0;
  for (int bit = 0; bit < 64; ++bit) {  // the quotient takes the place of what has been read
    left = left << 1 | number >> 63;
    number <<= 1;
    if (left >= divisor) {
      left -= divisor;
      ++number;
    }
  }
  *rest = static_cast<uint32_t>(left);
  return number;
}

/// Writes a text and a number behind it.
inline void write_number(const char* before, uint64_t number) {
  char text[21];
  char* digit = text + sizeof(text) - 1;
  *digit = '\0';
  do {
    uint32_t rest;
    number = divide(number, 10, &rest);
    *--digit = static_cast<char>('0' + rest);
  } while (number != 0);
  write(before);
  write(digit);
}

/// Writes the bytes of an example's output as text, for those who compare them with another program's.
inline void write_bytes(size_t example, size_t output, const uint8_t* data, size_t nbytes) {
  write_number("bytes ", example);
  write_number(" ", output);
  write(": ");
  for (size_t i = 0; i < nbytes; ++i) {
    const char text[3] = {"0123456789abcdef"[data[i] >> 4], "0123456789abcdef"[data[i] & 15], '\0'};
    write(text);
  }
  write("\n");
}

/// Ends the program: under QEMU with this exit status.
[[noreturn]] void exit(int status);

/// Instructions since the start, under `qemu-system-arm -icount shift=5`; 0 on a host.
uint64_t instructions();

/// Fills the unused part of the stack with a pattern, so that stack_used() counts from here.
void paint_stack();
/// The most bytes of stack that were in use since paint_stack(), of this function's caller and what it called.
size_t stack_used();

}  // namespace board
