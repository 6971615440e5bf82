// RESCALE's multiplier and shift: what they say, at the edges of the ranges, and against the kernels' rounding.
#include "backends/tosa/compiler/rescale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <utility>

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

int64_t kernels_sum(const FixedPoint& sum, int64_t x, int64_t y) {
  return (x * sum.a + y * sum.b + (int64_t{1} << (sum.shift - 1))) >> sum.shift;
}

/// Each x and y of 8 bits, for random scales, zero points and ranges: additions and subtractions.
TEST(Rescale, ASumWithFactorsOf15BitsGivesWhatKernelsGive) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> exponent(-4, 1);
  constexpr int kCount = 300;
  int found = 0;
  for (int i = 0; i < kCount; ++i) {
    FixedPoint sum{(1 << 20) + static_cast<int32_t>(random() % (1 << 20)), 0, 21};
    sum.b = static_cast<int32_t>(sum.a * std::exp2(exponent(random) - 1)) * (i % 3 == 0 ? -1 : 1);
    sum.shift += i % 5 - 2;
    if (i % 2 == 0) {
      std::tie(sum.a, sum.b) = std::pair{std::abs(sum.b), sum.b < 0 ? -sum.a : sum.a};
    }
    const auto interval = [&] {
      const int64_t zero_point = static_cast<int64_t>(random() % 256) - 128;
      return Interval{-128 - zero_point, 127 - zero_point};
    };
    const Interval x = interval(), y = interval(), result = interval();
    const auto own = matching_sum(sum, x, y, result);
    if (!own) {
      continue;
    }
    ++found;
    EXPECT_LE(std::max(own->a, std::abs(own->b)), INT16_MAX);
    for (int64_t at = x.low; at <= x.high; ++at) {
      for (int64_t add = y.low; add <= y.high; ++add) {
        ASSERT_EQ(std::clamp(rescaled(own->back, at * own->a + add * own->b), result.low, result.high),
                  std::clamp(kernels_sum(sum, at, add), result.low, result.high))
            << sum.a << " * " << at << " + " << sum.b << " * " << add << " >> " << sum.shift;
      }
    }
  }
  EXPECT_GE(found, kCount * 9 / 10);
  EXPECT_FALSE(matching_sum({1 << 20, 0, 20}, {}, {}, {})) << "RESCALE has no factor 0";
}

}  // namespace
}  // namespace et::backends::tosa::compiler
