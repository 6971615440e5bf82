/// Scales and integers among the arguments of quantized operators, read when a kernel is chosen.
///
/// For: quantized/pointwise.cpp, quantized/depthwise.cpp. What does not fit here is left to the plain kernels.
#pragma once

#include <cmath>

#include "kernels/optimized/vec/fitting.h"

namespace et::kernels::optimized::quantized {

/// The integers that a type has; empty for a type that no quantized kernel of this folder takes.
struct IntegerRange {
  int64_t low = 0, high = -1;

  explicit IntegerRange(ScalarType dtype) {
    if (dtype == ScalarType::Char) {
      low = -128, high = 127;
    } else if (dtype == ScalarType::Byte) {
      low = 0, high = 255;
    } else if (dtype == ScalarType::Short) {
      low = -32768, high = 32767;
    }
  }
  bool has(const EValue& value) const { return value.number_as_int() >= low && value.number_as_int() <= high; }
};

/// False for what is no scale.
inline bool read_scale(const EValue& value, float* scale) {
  *scale = static_cast<float>(value.number_as_double());
  return *scale > 0 && std::isnormal(*scale);
}

}  // namespace et::kernels::optimized::quantized
