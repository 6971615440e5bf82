// A board for ports that ask for one: it keeps what is written.
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "fake.h"
#include "platform/ports/board.h"

int g_threads_left = -1;

namespace {
std::string g_written;
}

extern "C" {
void et_board_put(char byte) { g_written += byte; }
uint64_t et_board_now_ns() {
  static uint64_t now = 0;
  return now += 1000;
}
void et_board_reset() {
  std::fputs("reset\n", stderr);
  std::_Exit(3);
}
}

std::string take_written() { return std::exchange(g_written, {}); }
