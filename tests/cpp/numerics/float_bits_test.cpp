// Questions that integers answer, beside what the processor says.
#include "numerics/float_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace et {
namespace {

TEST(FloatBitsTest, QuestionsOfFloats) {
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<uint32_t>(random()) & (i % 4 == 0 ? 0xFF800001u : 0xFFFFFFFFu);
    const auto value = from_bits<float>(bits);
    EXPECT_EQ(is_finite(value), std::isfinite(value)) << bits;
    EXPECT_EQ(is_positive_normal(value), value > 0 && std::isnormal(value)) << bits;
  }
}

TEST(FloatBitsTest, QuestionsOfDoubles) {
  for (const double value : {0.0, -0.0, 5e-324, -1.0, HUGE_VAL, -HUGE_VAL, std::nan(""), -std::nan("")}) {
    EXPECT_EQ(is_zero(value), value == 0) << value;
    EXPECT_EQ(is_nan(value), std::isnan(value)) << value;
  }
}

/// Numbers of all lengths, and those around the middle between two floats.
TEST(FloatBitsTest, IntegersRoundAsCastsDo) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    uint64_t bits = random() >> random() % 64;
    if (i % 2 == 0) {  // ten to fifty zeros behind a few digits, and a one or none at the end
      bits = (bits | 1) << random() % 63;
      bits ^= i % 4 == 0 ? 1 : 0;
    }
    const auto wide = static_cast<int64_t>(bits);
    const auto narrow = static_cast<int32_t>(bits);
    EXPECT_EQ(bits_of(rounded_integer<double>(wide)), bits_of(static_cast<double>(wide))) << wide;
    EXPECT_EQ(bits_of(rounded_integer<float>(narrow)), bits_of(static_cast<float>(narrow))) << narrow;
  }
  for (const int64_t wide : {int64_t{0}, INT64_MIN, INT64_MAX}) {
    EXPECT_EQ(bits_of(rounded_integer<double>(wide)), bits_of(static_cast<double>(wide)));
  }
  for (const int32_t narrow : {INT32_MIN, INT32_MAX, 16'777'217, 16'777'219}) {
    EXPECT_EQ(bits_of(rounded_integer<float>(narrow)), bits_of(static_cast<float>(narrow)));
  }
}

}  // namespace
}  // namespace et
