#include "numerics/exact_factor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace et {
namespace {

/// The product rounded half up, in words of 24 bits: 32-bit processors have no integers of 128.
int64_t rounded_product(int64_t value, float factor) {
  int exponent = 0;
  const auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(factor, &exponent), 24));
  const int shift = 24 - exponent;
  constexpr int64_t kWord = 1 << 24;
  const int64_t low = (value & (kWord - 1)) * mantissa;
  const int64_t high = (value >> 24) * mantissa + (low >> 24);  // below 2^48
  const int64_t rest = low & (kWord - 1);
  if (shift > 74) {
    return 0;
  }
  if (shift > 24) {
    return (high + (int64_t{1} << (shift - 25))) >> (shift - 24);
  }
  if (shift < 1) {
    return (high * kWord + rest) * (int64_t{1} << -shift);
  }
  return high * (kWord >> shift) + ((rest + (int64_t{1} << (shift - 1))) >> shift);
}

TEST(ExactFactor, RoundsTheProductOnceHalvesUp) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto value = static_cast<int64_t>(random()) >> (17 + random() % 46);  // below 2^47
    const float factor =
        std::ldexp(1.0f + static_cast<float>(random() % (1 << 23)) * 0x1p-23f, static_cast<int>(random() % 100) - 90);
    if (std::abs(static_cast<double>(value) * static_cast<double>(factor)) < 0x1p30) {
      EXPECT_EQ(ExactFactor::of(factor)(value), rounded_product(value, factor)) << value << " * " << factor;
    } else {
      EXPECT_GE(std::abs(ExactFactor::of(factor)(value)), int64_t{1} << 29) << value << " * " << factor;
    }
  }
}

TEST(ExactFactor, IsTheFloat) {
  for (const float factor : {1.0f, 0.1f, 3e-9f, 1.5e20f, 1e-40f}) {
    const ExactFactor exact = ExactFactor::of(factor);
    EXPECT_EQ(std::ldexp(static_cast<double>(exact.multiplier), -exact.shift), static_cast<double>(factor));
  }
}

TEST(SurplusBits, LeaveSumsWithin32Bits) {
  EXPECT_EQ(surplus_bits(255, kWeightedBits), 0);
  EXPECT_EQ(surplus_bits(256, kWeightedBits), 1);
  for (int64_t terms = 1; terms < int64_t{1} << 33; terms = terms * 3 / 2 + 1) {
    for (const int bits : {kWeightedBits, kProductBits}) {
      const double most = std::ldexp(static_cast<double>(std::min(terms, int64_t{1} << 32)), bits) + 0x1p30;
      EXPECT_LT(std::ldexp(most, -surplus_bits(terms, bits)), 0x1p31) << terms;
    }
  }
}

}  // namespace
}  // namespace et
