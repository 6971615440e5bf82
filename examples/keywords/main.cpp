// Keyword spotting on a microcontroller: samples of 16 kHz come in, words go out.
//
// The first sample says every how many hops the network runs: 5 for a stream, 50 for clips of one second. A hop's
// result is its 20 levels, voice (0 or 1), the word or -1, and the network's seven scores, zero where it did not run.
#include <cstring>

#include "board/board.h"
#include "ear.h"
#include "network.h"
#include "report.h"
#include "stream.h"

namespace application {

int run(Network& network, int, char**) {
  static Ear ear;
  static int8_t window[kFrames * kBands];
  int16_t period = 0;
  int16_t hop[kHop];
  uint64_t hops = 0;
  uint64_t runs = 0;
  uint64_t levels_took = 0;
  if (!open_streams() || !read_sample(&period, sizeof(period)) || period <= 0) {
    return 2;
  }
  ear_reset(&ear);
  while (read_sample(hop, sizeof(hop))) {
    const uint64_t before = board::instructions();
    const bool voiced = ear_listen(&ear, hop);
    levels_took += board::instructions() - before;
    int8_t result[kBands + 2 + kWords] = {};
    memcpy(result, ear.levels[kFrames - 1], kBands);
    result[kBands] = voiced ? 1 : 0;
    result[kBands + 1] = -1;
    if (++hops % static_cast<uint64_t>(period) == 0) {
      ++runs;
      ear_window(&ear, window);
      const int8_t* const scores = network.run(window);
      if (scores == nullptr) {
        return 3;
      }
      result[kBands + 1] = static_cast<int8_t>(ear_decide(&ear, scores));
      memcpy(result + kBands + 2, scores, kWords);
    }
    if (!write_result(result, sizeof(result))) {
      return 4;
    }
  }
  if (runs != 0) {
    firmware::write_number("hops ", hops);
    firmware::write_number(", instructions: levels of a hop ", levels_took / hops);
    firmware::write_number(", network ", network.instructions() / runs);
    board::write("\n");
  }
  return 0;
}

}  // namespace application
