/// Layer norm of integers without floats, in steps that integer accelerators compute as well. For a row of n integers
/// less their zero point, x, and f = 12 bits of fraction, of 16-bit integers 10:
///
///     distance(i) = x[i] * 2^f - mean,              mean = sum of x * 2^f times 1/n
///     squares     = sum of distance(i)^2 >> t, + eps   t: so that they fit 30 bits
///     normal(i)   = (distance(i) * 1/sqrt(squares)) >> s
///     result      = (((normal(i) * weight[i]) >> w) + bias[i]) >> k, + zero point
///
/// For: the kernel of et::quantized_layer_norm and compilers for such devices, so that both give the same integers.
#pragma once

#include <limits>

#include "numerics/fixed_point.h"

namespace et {

/// The shifts and factors of rows of one length.
class IntegerNorm {
 public:
  static constexpr int kFraction = 12, kWideFraction = 10;
  /// Longer rows have sums above 2^31, beyond the sums of such devices, even without fraction.
  static constexpr int64_t kMaxLength = 65536;

  /// eps and `scale`, that of the input, are finite, `scale` is positive. `is_wide`: integers have 16 bits.
  IntegerNorm(int64_t length, double eps, double scale, bool is_wide = false)
      : fraction(is_wide ? kWideFraction : kFraction), length_(length) {
    int bits = 0;
    while (int64_t{1} << bits < length) {
      ++bits;
    }
    sum_fraction = is_wide ? 0 : std::clamp(23 - bits, 0, kFraction);
    mean = FixedFactor::of(std::ldexp(1.0 / static_cast<double>(length), fraction - sum_fraction));
    square_shift = 2 * fraction - (is_wide ? 0 : 16) + bits;
    normal_shift = fraction - (is_wide ? 0 : 8) + (bits + 1) / 2;
    const double unit = std::ldexp(static_cast<double>(length), 2 * fraction - square_shift);  // of a variance of 1
    epsilon = std::clamp<int32_t>(saturated(eps / scale / scale * unit), 1, 1 << 29);
    one = std::ldexp(std::sqrt(2 / std::ldexp(static_cast<double>(length), -square_shift)), 29 - normal_shift);
    largest = std::sqrt(static_cast<double>(length));
  }

  /// Of a row whose elements, less their zero point, have this sum.
  int64_t mean_of(int64_t sum) const {
    if (length_ <= kMaxLength) {
      return mean(sum * (1 << sum_fraction));
    }
    const int64_t shifted = sum * (1 << fraction);
    const int64_t doubled = 2 * shifted + length_, quotient = doubled / (2 * length_);
    return quotient - (doubled % (2 * length_) < 0 ? 1 : 0);
  }

  int64_t length() const { return length_; }

  int fraction, sum_fraction;  ///< of distances, and of what is added up for the mean
  FixedFactor mean;
  int square_shift, normal_shift;
  int32_t epsilon;
  double one;      ///< what a normalised element of 1 is
  double largest;  ///< bound of normalised elements

  int32_t distance(int32_t x, int64_t mean_of_row) const {
    return static_cast<int32_t>(int64_t{x} * (1 << fraction) - mean_of_row);
  }
  int64_t square(int32_t distance) const { return rounding_shift(int64_t{distance} * distance, square_shift); }
  /// What distances are multiplied by; `squares`: the sum of theirs.
  static int32_t inverse(int64_t squares) {
    const auto sum = static_cast<uint32_t>(squares);
    const int half = (leading_zeros(sum) - 1) >> 1;
    return static_cast<int32_t>(rounding_shift(InverseRoot::of(static_cast<int32_t>(sum << (2 * half))), 15 - half));
  }
  int64_t normal(int32_t distance, int32_t inverse) const {
    return rounding_shift(int64_t{distance} * inverse, normal_shift);
  }

 private:
  int64_t length_;
};

/// From normalised elements to the integers of a result. Weights and biases have the length of a row, or are nullptr.
class NormOutput {
 public:
  NormOutput(const IntegerNorm& norm, double scale, const float* weights, const float* biases)
      : weights_(weights), biases_(biases), unit_(1 / scale) {
    const double max_weight = weights == nullptr ? 1 : largest(weights, norm.length());
    const double max_bias = biases == nullptr ? 0 : largest(biases, norm.length());
    int reach = 0, size = 0;
    std::frexp((norm.largest * max_weight + max_bias) * unit_, &reach);
    shift = std::clamp(30 - reach, kMinShift, 15);
    fits = 30 - reach >= kMinShift;
    per_bias_ = std::ldexp(unit_, shift);
    const double per_weight = std::ldexp(unit_ / norm.one, shift);
    std::frexp(max_weight * per_weight, &size);
    weight_shift = std::clamp(30 - size, 0, 62);
    per_weight_ = std::ldexp(per_weight, weight_shift);
  }

  static constexpr int kMinShift = 2;
  int shift;         ///< bits of fraction that sums have
  int weight_shift;  ///< those that products have above that
  bool fits;         ///< sums have less than 32 bits; otherwise most results are at the ends of their range

  int32_t weight(int64_t i) const {
    const double value = weights_ == nullptr ? 1 : static_cast<double>(weights_[i]);
    return saturated(value * per_weight_);
  }
  int32_t bias(int64_t i) const {
    return biases_ == nullptr ? 0 : saturated(static_cast<double>(biases_[i]) * per_bias_);
  }
  int64_t operator()(int64_t normal, int32_t weight, int32_t bias) const {
    return rounding_shift(rounding_shift(normal * weight, weight_shift) + bias, shift);
  }

 private:
  /// The largest magnitude, as a finite number.
  static double largest(const float* values, int64_t count) {
    float out = 0;
    for (int64_t i = 0; i < count; ++i) {
      out = std::max(out, std::abs(values[i]));  // of NaN the other one
    }
    return static_cast<double>(std::min(out, std::numeric_limits<float>::max()));
  }

  const float *weights_, *biases_;
  double unit_, per_weight_ = 1, per_bias_ = 1;
};

}  // namespace et
