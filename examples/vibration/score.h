// How far a window is from what the autoencoder knows.
#pragma once

#include "features.h"
#include "parameters.h"

namespace application {

/// Squared difference of features and the network's outputs, in 1/256 of squared steps.
inline uint32_t score_of(const int8_t* features, const int8_t* outputs) {
  int64_t sum = 0;
  for (size_t b = 0; b < kBands; ++b) {
    const int64_t difference = features[b] * int64_t{65536} - int64_t{outputs[b] - kOutputZero} * kOutputScale;
    const int64_t rounded = difference / 256;
    sum += rounded * rounded;
  }
  return static_cast<uint32_t>(sum >> 8);
}

}  // namespace application
