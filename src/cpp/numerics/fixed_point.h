/// Arithmetic of integers alone that integer accelerators have, too.
///
/// Factors are a multiplier and a shift. Products of 64 bits are shifted back. 1 / x and 1 / sqrt(x) take steps of
/// Newton's method.
///
/// For: operators whose integers are the same on a processor and on an NPU (integer_softmax.h, integer_norm.h). All
/// shifts round half up. Not for: sums of products that float32 scales (rounding.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace et {

/// (value + 2^(shift - 1)) >> shift.
inline int64_t rounding_shift(int64_t value, int shift) {
  return shift == 0 ? value : (value + (int64_t{1} << (shift - 1))) >> shift;
}

/// multiplier / 2^shift with 2^30 <= multiplier < 2^31 and 2 <= shift <= 62, or fewer bits where the factor is below
/// 2^-32. The largest there is stands for factors from 2^29 on.
struct FixedFactor {
  int32_t multiplier = 0;
  int shift = 62;

  /// `factor` is positive and finite.
  static FixedFactor of(double factor) {
    int exponent = 0;
    const double mantissa = std::frexp(factor, &exponent);  // in [0.5, 1)
    if (exponent > 29) {
      return {INT32_MAX, 2};
    }
    const int shift = std::min(31 - exponent, 62);
    const auto multiplier = static_cast<int64_t>(std::ldexp(mantissa, exponent + shift) + 0.5);
    return multiplier == int64_t{1} << 31 ? FixedFactor{1 << 30, shift - 1}
                                          : FixedFactor{static_cast<int32_t>(multiplier), shift};
  }
  /// |value| < 2^32.
  int64_t operator()(int64_t value) const { return rounding_shift(value * multiplier, shift); }
};

/// An integer of 32 bits next to `value`; 0 for NaN.
inline int32_t saturated(double value) {
  return std::isnan(value) ? 0 : static_cast<int32_t>(std::lround(std::clamp(value, -0x1p+31, 0x1p+31 - 1)));
}

inline int leading_zeros(uint32_t value) {
  int count = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0 && (value & bit) == 0; bit >>= 1) {
    ++count;
  }
  return count;
}

/// 2^60 / x for x in [2^30, 2^31), as 1 / d in [1, 2] with 29 bits of fraction for d = x / 2^31.
struct Reciprocal {
  static constexpr int kSteps = 3;
  /// 48/17 and 32/17: the line that is at most 1/17 beside 1 / d. Each step squares that.
  static constexpr int32_t kStart = 1515870810, kSlope = 1010580540, kTwo = 1 << 30;

  static int32_t of(int32_t x) {
    int32_t r = kStart - static_cast<int32_t>(rounding_shift(int64_t{x} * kSlope, 31));
    for (int i = 0; i < kSteps; ++i) {
      const auto product = static_cast<int32_t>(rounding_shift(int64_t{x} * r, 31));
      r = static_cast<int32_t>(rounding_shift(int64_t{r} * (kTwo - product), 29));
    }
    return r;
  }
};

/// 2^44.5 / sqrt(x) for x in [2^29, 2^31), as 1 / sqrt(d) in [1, 2] with 29 bits of fraction for d = x / 2^31.
struct InverseRoot {
  static constexpr int kSteps = 3;
  /// 2.13277 and 1.21872: the line that is at most 9 % beside 1 / sqrt(d).
  static constexpr int32_t kStart = 1145022176, kSlope = 654295318, kThree = 3 << 28;

  static int32_t of(int32_t x) {
    int32_t r = kStart - static_cast<int32_t>(rounding_shift(int64_t{x} * kSlope, 31));
    for (int i = 0; i < kSteps; ++i) {
      const auto square = static_cast<int32_t>(rounding_shift(int64_t{r} * r, 30));
      const auto product = static_cast<int32_t>(rounding_shift(int64_t{x} * square, 31));
      r = static_cast<int32_t>(rounding_shift(int64_t{r} * (kThree - product), 29));
    }
    return r;
  }
};

}  // namespace et
