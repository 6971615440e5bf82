// Watches an accelerometer: 16-bit samples of 12 kHz from a file or stdin.
//
//   vibration THRESHOLD samples.raw        prints a line for each window of 0.34 s, and the time that one takes
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "features.h"
#include "network.h"
#include "score.h"

namespace application {

int run(Network& network, int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s THRESHOLD FILE   (-: stdin)\n", argv[0]);
    return 2;
  }
  const unsigned long threshold = std::strtoul(argv[1], nullptr, 10);
  std::FILE* const file = std::strcmp(argv[2], "-") == 0 ? stdin : std::fopen(argv[2], "rb");
  if (file == nullptr) {
    std::fprintf(stderr, "cannot open %s\n", argv[2]);
    return 2;
  }
  static int16_t samples[kWindow];
  unsigned long count = 0;
  std::chrono::duration<double, std::micro> took{};
  for (; std::fread(samples, sizeof(samples), 1, file) == 1; ++count) {
    const auto start = std::chrono::steady_clock::now();
    int8_t features[kBands];
    window_features(samples, 1, features);
    const int8_t* const outputs = network.run(features);
    if (outputs == nullptr) {
      return 3;
    }
    const unsigned long score = score_of(features, outputs);
    took += std::chrono::steady_clock::now() - start;
    std::printf("%8.2f s  %8lu%s\n", static_cast<double>(count) * kWindow / 12000, score,
                score > threshold ? "  anomaly" : "");
  }
  std::printf("%lu windows, %.0f us each\n", count, count == 0 ? 0.0 : took.count() / static_cast<double>(count));
  return 0;
}

}  // namespace application
