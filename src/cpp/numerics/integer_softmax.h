/// Softmax of integers without floats, in steps that integer accelerators compute as well. With powers of p bits:
///
///     power(i) = exp(-scale * (max - q[i])) in units of 2^-p
///     inverse  = 2^(29 + p) / sum of power
///     share    = (power(i) * inverse) >> (p - 1), in units of 2^-30
///     result   = share * (2^-30 / output scale) + zero point
///
/// Integers of 8 bits have p = 16. Those of 16 bits have 22 to 24, as many as keep the sum below 2^31.
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
  int32_t operator()(int32_t steps) const { return of(steps, kOne); }
  /// In units of 1 / one.
  int32_t of(int32_t steps, int32_t one) const {
    uint64_t power = UINT32_MAX;
    for (int bit = 0; bit < 8; ++bit) {
      power = (steps >> bit & 1) != 0 ? power * factors_[bit] >> 32 : power;
    }
    return static_cast<int32_t>((power * static_cast<uint32_t>(one) + (uint64_t{1} << 31)) >> 32);
  }

 private:
  uint32_t factors_[8];  // of 2^32
};

/// Powers of differences of 0 to 65535 steps: that of the high byte times that of the low one.
class WideSoftmaxPowers {
 public:
  static constexpr int kByteBits = 24;
  static constexpr int32_t kOne = (1 << kByteBits) - 1;
  /// Longer rows have sums above 2^31, beyond the sums of such devices.
  static constexpr int64_t kMaxLength = 511;

  /// Of powers in rows of `length`.
  static int bits_of(int64_t length) { return length < 128 ? 24 : length < 256 ? 23 : 22; }

  WideSoftmaxPowers(float scale, int64_t length) : bits(bits_of(length)), high_(scale * 256), low_(scale) {}

  const int bits;
  int32_t high(int32_t byte) const { return high_.of(byte, kOne); }
  int32_t low(int32_t byte) const { return low_.of(byte, kOne); }

 private:
  SoftmaxPowers high_, low_;
};

/// What one sum of powers makes of each power.
class SoftmaxShares {
 public:
  static constexpr int kShareBits = 30, kPowerBits = 16;
  /// Sums below 2^31 have at most so many powers. Such devices have no larger ones.
  static constexpr int64_t kMaxLength = 32768;

  static FixedFactor to_output(double output_scale) { return FixedFactor::of(0x1p-30 / output_scale); }

  /// `sum` is at least the power of the largest element, which has `bits` bits.
  explicit SoftmaxShares(int64_t sum, int bits = kPowerBits) : shift_(bits - 1) {
    const auto high = static_cast<uint32_t>(sum >> 31);
    const int zeros = high == 0 ? leading_zeros(static_cast<uint32_t>(sum)) : leading_zeros(high) - 31;
    const int64_t normal = zeros >= 1 ? sum << (zeros - 1) : sum >> (1 - zeros);
    inverse_ = rounding_shift(Reciprocal::of(static_cast<int32_t>(normal)), 32 - bits - zeros);
  }
  int64_t operator()(int32_t power) const { return rounding_shift(power * inverse_, shift_); }

 private:
  int shift_;
  int64_t inverse_;
};

}  // namespace et
