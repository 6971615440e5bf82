#include "features.h"

#include "spectrum.h"

namespace application {
namespace {

struct Edges {
  uint16_t bins[kBands + 2];
};

/// Bands of equal width, from 47 Hz to 5.8 kHz at 12 kHz.
constexpr Edges make_edges() {
  Edges edges{};
  for (size_t i = 0; i < kBands + 2; ++i) {
    edges.bins[i] = static_cast<uint16_t>(4 + 12 * i);
  }
  return edges;
}

constexpr Edges kEdges = make_edges();

}  // namespace
}  // namespace application

void window_features(const int16_t* samples, size_t count, int8_t* features) {
  using namespace application;  // NOLINT(google-build-using-namespace)
  for (size_t w = 0; w < count; ++w) {
    int32_t sums[kBands] = {};
    for (size_t f = 0; f < kFrames; ++f) {
      int8_t bands[kBands];
      log_bands(samples + w * kWindow + f * kFrame, kFrame, kEdges.bins, kBands, bands);
      for (size_t b = 0; b < kBands; ++b) {
        sums[b] += bands[b];
      }
    }
    for (size_t b = 0; b < kBands; ++b) {
      features[w * kBands + b] = static_cast<int8_t>((sums[b] + 4 * 128 + 2) / 4 - 128);
    }
  }
}
