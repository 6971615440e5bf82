/// Softmax of 8-bit integers without floats, in steps that integer accelerators compute as well:
///
///     power(i) = exp(-scale * (max - q[i])) in units of 1 / 65535
///     inverse  = 2^45 / sum of power
///     share    = (power(i) * inverse) >> 15, in units of 2^-30
///     result   = share * (2^-30 / output scale) + zero point
///
/// For: the kernels of et::quantized_softmax and compilers for such devices, so that both give the same integers.
#pragma once

#include "numerics/fixed_point.h"

namespace et {

/// Powers of differences of 0 to 255 steps. One exp serves all of them: a difference is a sum of powers of two.
class SoftmaxPowers {
 public:
  static constexpr int32_t kOne = 65535;

  explicit SoftmaxPowers(float scale) {
    double power = std::exp(-static_cast<double>(scale));  // of one step, then of two, of four, …
    for (uint32_t& factor : factors_) {
      factor = static_cast<uint32_t>(std::min(power * 0x1p+32 + 0.5, 0x1p+32 - 1));
      power *= power;
    }
  }
  int32_t operator()(int32_t steps) const {
    uint64_t power = UINT32_MAX;
    for (int bit = 0; bit < 8; ++bit) {
      power = (steps >> bit & 1) != 0 ? power * factors_[bit] >> 32 : power;
    }
    return static_cast<int32_t>((power * kOne + (uint64_t{1} << 31)) >> 32);
  }

 private:
  uint32_t factors_[8];  // of 2^32
};

/// What one sum of powers makes of each power.
class SoftmaxShares {
 public:
  static constexpr int kShareBits = 30, kProductShift = 15;
  /// Sums below 2^31 have at most so many powers. Such devices have no larger ones.
  static constexpr int64_t kMaxLength = 32768;

  static FixedFactor to_output(double output_scale) { return FixedFactor::of(0x1p-30 / output_scale); }

  /// `sum` is at least SoftmaxPowers::kOne, which the largest element has.
  explicit SoftmaxShares(int64_t sum) {
    const auto high = static_cast<uint32_t>(sum >> 31);
    const int zeros = high == 0 ? leading_zeros(static_cast<uint32_t>(sum)) : leading_zeros(high) - 31;
    const int64_t normal = zeros >= 1 ? sum << (zeros - 1) : sum >> (1 - zeros);
    inverse_ = rounding_shift(Reciprocal::of(static_cast<int32_t>(normal)), 16 - zeros);
  }
  int64_t operator()(int32_t power) const { return rounding_shift(power * inverse_, kProductShift); }

 private:
  int64_t inverse_;
};

}  // namespace et
