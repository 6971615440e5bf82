// RESCALE's multiplier and shift: what they say, at the edges of the ranges, and against the kernels' rounding.
#include "backends/tosa/compiler/rescale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace et::backends::tosa::compiler {
namespace {

int64_t saturated(const Rescale& rescale, const Rounding& rounding, int64_t value) {
  return std::clamp(rescaled(rescale, value), rounding.low, rounding.high);
}

TEST(Rescale, NearestHas31BitsAndAShiftOfTheFormat) {
  for (const double factor : {0x1p-32, 1e-9, 0.3, 0.5, 1.0, 1.5, 255.0, 0x1.fffffffp28}) {
    const auto found = nearest_rescale(factor);
    ASSERT_TRUE(found) << factor;
    EXPECT_GE(found->multiplier, 1 << 30) << factor;
    EXPECT_GE(found->shift, 2);
    EXPECT_LE(found->shift, 62);
    EXPECT_NEAR(std::ldexp(found->multiplier, -found->shift) / factor, 1, 0x1p-31) << factor;
  }
}

TEST(Rescale, FactorsThatTheFormatCannotSayHaveNone) {
  for (const double factor : {0.0, -0.5, 0x1p-33, 0x1p29, 1e300, HUGE_VAL, std::nan("")}) {
    EXPECT_FALSE(nearest_rescale(factor)) << factor;
    EXPECT_FALSE(matching_rescale({static_cast<float>(factor)})) << factor;
  }
}

TEST(Rescale, AMultiplierJustBelowAPowerOfTwoIsNotRoundedOver) {
  const auto found = nearest_rescale(1 - 0x1p-40);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->multiplier, 1 << 30);
  EXPECT_EQ(found->shift, 30);
}

/// All values of the range where nothing is saturated, for random factors and ranges.
TEST(Rescale, GivesWhatKernelsGive) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-14, 1);
  for (int i = 0; i < 300; ++i) {
    const int64_t zero_point = static_cast<int64_t>(random() % 256) - 128;
    const auto factor = static_cast<float>(std::exp2(exponent(random)));
    const Rounding rounding{factor, -128 - zero_point, 127 - zero_point, 200000};
    const auto found = matching_rescale(rounding);
    ASSERT_TRUE(found);
    int different = 0;
    for (int64_t value = -rounding.largest; value <= rounding.largest; ++value) {
      const int64_t wanted = rounded(rounding, value), got = saturated(*found, rounding, value);
      ASSERT_LE(std::abs(wanted - got), 1) << factor << " * " << value;
      different += wanted != got ? 1 : 0;
    }
    EXPECT_TRUE(found->is_exact ? different == 0 : different > 0) << factor << ": " << different;
    EXPECT_LE(different, 16) << factor;
  }
}

TEST(Rescale, TiesAreTheOnlyLossOfARoundFactor) {
  const auto found = matching_rescale({0.5F, -128, 127, 1000});
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->is_exact);  // 0.5 and 1.5 go to even numbers, RESCALE's all upwards
}

TEST(Rescale, TheLargestSumsDoNotOverflow) {
  for (const float factor : {0x1p-31F, 3e-8F, 1e-4F, 1.0F, 200.0F}) {
    const Rounding rounding{factor, -255, 255, INT32_MAX};
    const auto found = matching_rescale(rounding);
    ASSERT_TRUE(found) << factor;
    for (const int64_t value : {int64_t{INT32_MAX}, -int64_t{INT32_MAX}}) {
      EXPECT_LE(std::abs(saturated(*found, rounding, value) - rounded(rounding, value)), 1) << factor;
    }
  }
}

}  // namespace
}  // namespace et::backends::tosa::compiler
