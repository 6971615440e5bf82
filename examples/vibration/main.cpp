// Anomalies of a bearing on a microcontroller: windows of an accelerometer come in, scores go out.
//
// A result is the window's features, what the autoencoder makes of them, and the score: the squared difference.
#include "board/board.h"
#include "features.h"
#include "network.h"
#include "report.h"
#include "score.h"
#include "stream.h"

namespace application {

int run(Network& network, int, char**) {
  static int16_t samples[kWindow];
  uint64_t count = 0;
  uint64_t features_took = 0;
  if (!open_streams()) {
    return 2;
  }
  for (; read_sample(samples, sizeof(samples)); ++count) {
    int8_t features[kBands];
    const uint64_t before = board::instructions();
    window_features(samples, 1, features);
    features_took += board::instructions() - before;
    const int8_t* const outputs = network.run(features);
    if (outputs == nullptr) {
      return 3;
    }
    const uint32_t score = score_of(features, outputs);
    if (!write_result(features, kBands) || !write_result(outputs, kBands) || !write_result(&score, sizeof(score))) {
      return 4;
    }
  }
  if (count != 0) {
    firmware::write_number("windows ", count);
    firmware::write_number(", instructions each: features ", features_took / count);
    firmware::write_number(", network ", network.instructions() / count);
    board::write("\n");
  }
  return 0;
}

}  // namespace application
