/// Results of 16 bits as products of integers: a float32 as a multiplier and a shift, and products with it that are
/// rounded once, halves up.
///
/// For: requantization to 16 bits, whose steps are finer than float32's sums. Integer accelerators multiply and shift,
/// too, so they give the same integers. Not for: results of 8 bits (rounding.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace et {

/// multiplier / 2^shift, equal to a positive, finite float32.
struct ExactFactor {
  int32_t multiplier = 0;  ///< 24 bits
  int shift = 0;           ///< between -104 and 149

  static ExactFactor of(float factor) {
    uint32_t bits = 0;
    std::memcpy(&bits, &factor, sizeof(bits));
    const auto exponent = static_cast<int>(bits >> 23 & 0xFFu);
    const auto fraction = static_cast<int32_t>(bits & 0x7FFFFFu);
    return exponent == 0 ? ExactFactor{fraction, 149} : ExactFactor{fraction | 0x800000, 150 - exponent};
  }

  /// value * factor, rounded half up. Results beyond 32 bits are of the right sign and beyond 30 bits.
  int64_t operator()(int64_t value) const {
    if (shift < kLow + 1) {  // the factor is above 32
      const int64_t bounded = std::clamp<int64_t>(value, -(int64_t{1} << 38), int64_t{1} << 38);
      return shift < 1 ? bounded * multiplier : (bounded * multiplier + (int64_t{1} << (shift - 1))) >> shift;
    }
    const int64_t bounded = std::clamp<int64_t>(value, -(int64_t{1} << 54), int64_t{1} << 54);
    const int by = std::min(shift, kLow + 62);  // beyond, the product is less than half
    const int64_t low = (bounded & ((int64_t{1} << kLow) - 1)) * multiplier;
    return ((bounded >> kLow) * multiplier + (low >> kLow) + (int64_t{1} << (by - kLow - 1))) >> (by - kLow);
  }

 private:
  static constexpr int kLow = 16;  // bits of a value that are multiplied by themselves
};

/// How many bits sums must lose to fit 31 bits beside their sign: of `terms` products below 2^`bits`, and a bias.
inline int surplus_bits(int64_t terms, int bits) {
  const int64_t most = (std::min(terms, int64_t{1} << 32) << (bits - 16)) + (int64_t{1} << (30 - 16));
  int surplus = 0;
  while (most >> surplus >= int64_t{1} << (31 - 16)) {
    ++surplus;
  }
  return surplus;
}
/// Of products of a 16-bit activation with a weight of 8 bits, and of two such activations.
inline constexpr int kWeightedBits = 22, kProductBits = 30;
/// Bits of an operand in a sum for 16 bits, behind the point of the result where the larger ratio of scales is 1.
inline constexpr int kWideSumBits = 14;

}  // namespace et
