// The step from a sum to an integer, in integers, against the same in floats.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cortex_m/primitives.h"

namespace et::kernels::cortex_m {
namespace {

/// What both come to after the widest clamp of 8 bits.
int32_t clamped(int32_t units) { return std::min(std::max(units, -255), 255); }

void expect_same(int32_t sum, float scale) {
  const float units = static_cast<float>(sum) * scale;
  const auto expected = static_cast<int32_t>(std::nearbyint(std::min(std::max(units, -255.0f), 255.0f)));
  ASSERT_EQ(clamped(units_in_integers(sum, scale)), expected) << sum << " * " << scale << " = " << units;
  ASSERT_EQ(clamped(exact_units(sum, scale)), expected) << sum << " * " << scale << " = " << units;
}

float scale_of(std::mt19937& random, int exponent) {
  return std::ldexp(1.0f + static_cast<float>(random() % (1u << 23)) * 0x1p-23f, exponent);
}

TEST(UnitsInIntegers, EverySumOfSomeScales) {
  std::mt19937 random(1);
  for (int round = 0; round < 24; ++round) {
    const float scale = scale_of(random, -4 - round % 12);
    const auto beyond = static_cast<int32_t>(300.0f / scale);
    for (int32_t sum = -beyond; sum <= beyond; ++sum) {
      expect_same(sum, scale);
    }
  }
}

TEST(UnitsInIntegers, RandomSumsOfAllScales) {
  std::mt19937 random(2);
  for (int round = 0; round < 4000000; ++round) {
    const int exponent = static_cast<int>(random() % 60) - 45;
    const float scale = scale_of(random, exponent);
    expect_same(static_cast<int32_t>(random()) >> (random() % 31), scale);
  }
}

TEST(UnitsInIntegers, NeighboursOfTies) {
  std::mt19937 random(3);
  for (int round = 0; round < 400000; ++round) {
    const int32_t sum = static_cast<int32_t>(random() % (1u << (4 + random() % 27))) + 1;
    const float middle = (static_cast<float>(random() % 256) + 0.5f) / static_cast<float>(sum);
    for (float scale : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
      expect_same(sum, scale);
      expect_same(-sum, scale);
    }
  }
}

TEST(UnitsInIntegers, ScalesWithoutAMultiplier) {
  for (const float scale : {0.0f, 0x1p-149f, 0x1p-126f, 0x1p-40f, 0x1p20f, 0x1p127f, -0.25f, -0.5f}) {
    for (const int32_t sum : {INT32_MIN, INT32_MIN + 1, -3, -1, 0, 1, 2, 3, 1 << 24, INT32_MAX}) {
      expect_same(sum, scale);
    }
  }
}

TEST(ScaleInIntegers, RandomScalesAreThoseOfFloats) {
  std::mt19937 random(4);
  const auto any = [&] {
    const float few[] = {1.0f, 0x1.fffffep0f, 0x1.000002p0f, 0x1.8p0f, 0x1.555556p0f};  // rounding to even, and up
    const int exponent = static_cast<int>(random() % 85) - 50;
    return random() % 4 == 0 ? std::ldexp(few[random() % 5], exponent) : scale_of(random, exponent);
  };
  for (int round = 0; round < 3000000; ++round) {
    const float a = any(), b = random() % 100 == 0 ? -any() : any(), c = any();
    const float expected = a * b / c;
    const float found = scale_in_integers(a, b, c);
    ASSERT_TRUE(found == expected || (found == 0 && std::abs(expected) < 0x1p-33f))
        << a << " * " << b << " / " << c << " is " << found;
  }
}

TEST(ScaleInIntegers, OfAnyFloatsItIsRightOrNaN) {
  std::mt19937 random(5);
  const auto any = [&] {
    const float few[] = {0.0f, 1.0f, 0x1p-149f, 0x1p-126f, 0x1p127f, std::numeric_limits<float>::infinity(), NAN};
    return random() % 4 == 0 ? few[random() % 7] : from_bits<float>(static_cast<uint32_t>(random()));
  };
  for (int round = 0; round < 3000000; ++round) {
    const float a = any(), b = any(), c = std::abs(any()), found = scale_in_integers(a, b, c), expected = a * b / c;
    if (!is_positive_normal(c) || !std::isfinite(expected)) {
      ASSERT_FALSE(std::isfinite(found)) << a << " * " << b << " / " << c;
    } else {
      const bool is_nothing = found == 0 && std::abs(expected) < 0x1p-33f;
      ASSERT_TRUE(found == expected || is_nothing || std::isnan(found))
          << a << " * " << b << " / " << c << " is " << found;
    }
  }
}

}  // namespace
}  // namespace et::kernels::cortex_m
