/// Sums of integers in fixed point (docs/reference/numerics.md). Of 8 bits: both scales are integers of 21 bits, the
/// larger one exactly. Of 16 bits: both operands are brought to the result's scale with bits behind the point.
///
/// For: et::quantized_add and _sub, here and in kernels/optimized, which must agree bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "numerics/exact_factor.h"

namespace et::kernels::quantized {

/// What turns two integers into the sum less the output's zero point:
/// (bias + a * a_factor + b * b_factor) >> shift, in int32 that wraps; below 2^19 for any 8-bit a and b.
struct FixedPointSum {
  int32_t a_factor = 0, b_factor = 0;
  uint32_t shift = 0;
  int32_t bias = 0;

  /// Scales are positive, finite floats; zero points integers of 8 bits.
  /// False when the scales of operands and result are too far apart: then the sum is one of floats.
  bool make(float a_scale, int32_t a_zero, float b_scale, int32_t b_zero, float output_scale, bool subtract) {
    const float a = a_scale / output_scale;
    const float b = b_scale / output_scale;
    const float largest = std::max(a, b);
    if (!(largest >= 0x1p-10f && largest < 0x1p+8f)) {
      return false;
    }
    int exponent = 0;
    std::frexp(largest, &exponent);  // largest in [2^(exponent - 1), 2^exponent)
    shift = static_cast<uint32_t>(20 - (exponent - 1));
    a_factor = static_cast<int32_t>(std::lrint(std::ldexp(a, static_cast<int>(shift))));
    b_factor = static_cast<int32_t>(std::lrint(std::ldexp(b, static_cast<int>(shift))));
    b_factor = subtract ? -b_factor : b_factor;
    bias = (int32_t{1} << (shift - 1)) - a_factor * a_zero - b_factor * b_zero;
    return true;
  }
};

/// The same for 16 bits: ((a * a_factor) + (b * b_factor) + half) >> shift, each product rounded half up, below 2^30.
struct WideSum {
  ExactFactor a_factor, b_factor;
  int shift = 0;

  /// As FixedPointSum::make; operands are less their zero points.
  bool make(float a_scale, float b_scale, float output_scale) {
    const float a = a_scale / output_scale, b = b_scale / output_scale;
    const float largest = std::max(a, b);
    if (!(largest >= 0x1p-10f && largest < 0x1p+8f)) {
      return false;
    }
    int exponent = 0;
    std::frexp(largest, &exponent);
    shift = kWideSumBits - exponent;
    a_factor = ExactFactor::of(std::ldexp(a, shift));
    b_factor = ExactFactor::of(std::ldexp(b, shift));
    return true;
  }
  int64_t operator()(int32_t a, int32_t b, bool subtract) const {
    const int64_t second = b_factor(b);
    return (a_factor(a) + (subtract ? -second : second) + (int64_t{1} << (shift - 1))) >> shift;
  }
};

}  // namespace et::kernels::quantized
