// Linear layers of many rows and few outputs: outputs around the tiles, rows around theirs, every instruction set, and
// what is left to others.

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "base/rounding.h"
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/amx/tiles.h"
#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/priorities.h"
#include "runtime/host/kernel_costs.h"
#include "threads/thread_pool.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kPriority = optimized::kPriorityPixels;

struct Linear {
  std::vector<int64_t> lead;  // sizes before the last
  int64_t in, out;
};

Call& describe(Call& call, const Linear& l, bool bias, bool clamp) {
  std::vector<int64_t> input = l.lead, output = l.lead;
  input.push_back(l.in);
  output.push_back(l.out);
  call.tensor(input).constant({l.out, l.in});
  bias ? call.constant({l.out}) : call.none();
  if (clamp) {
    call.number(-3.0).number(6.0);
  }
  return call.out(output);
}

void expect_same(const Linear& l, bool bias = true, bool clamp = false) {
  SCOPED_TRACE(::testing::Message() << l.in << " to " << l.out);
  Call call(clamp ? "et::linear_clamp.out" : "aten::linear.out");
  // The plain kernel adds in another order: what that changes grows as the root of the number of addends.
  const double tolerance = std::max(1e-6, std::sqrt(static_cast<double>(l.in)) * 0x1p-24);
  describe(call, l, bias, clamp).expect_same(kPriority, tolerance);
}

bool fits(const Linear& l) {
  Call call("aten::linear.out");
  return describe(call, l, true, false).fits(kPriority);
}

bool is_chosen(const Linear& l) {
  Call call("aten::linear.out");
  return describe(call, l, true, false).chosen() == kPriority;
}

TEST(PixelLinear, OutputsAroundTheTiles) {
  for (int64_t outputs = 1; outputs <= 50; ++outputs) {
    if (fits({{5, 9}, 21, outputs})) {
      expect_same({{5, 9}, 21, outputs});
    }
  }
  expect_same({{300, 4}, 33, 18});
}

TEST(PixelLinear, RowsBiasAndLimits) {
  for (int64_t rows = 24; rows <= 40; ++rows) {
    expect_same({{rows}, 8, 3}, rows % 2 == 0, rows % 3 == 0);
  }
}

TEST(PixelLinear, RowsOfEveryNumber) {
  int taken = 0;
  for (int64_t rows = 2; rows <= 40; ++rows) {
    for (const int64_t outputs : {32, 56, 64, 90}) {
      if (fits({{rows}, 19, outputs})) {
        ++taken;
        expect_same({{rows}, 19, outputs});
      }
    }
  }
  EXPECT_GT(taken, 30);
}

// A method that has some rows at most may get none.
TEST(PixelLinear, NoRows) {
  threads::ThreadPool* const pool = threads::make_pool(2);
  const float filter[64] = {}, bias[64] = {};
  optimized::conv::PixelProduct product{};
  product.in_channels = 1;
  product.out_channels = 32;
  product.kernel_h = product.kernel_w = 1;
  product.filter = filter;
  product.bias = bias;
  optimized::conv::multiply_pixels_on(pool, product, nullptr, nullptr, 0);
  threads::destroy_pool(pool);
}

TEST(PixelLinear, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const int64_t outputs : {1, 3, 5, 7, 32, 64, 96}) {
      if (fits({{40}, 17, outputs})) {
        expect_same({{40}, 17, outputs});
      }
    }
  });
}

// All rows meet a group of columns before the next: here of several tiles, and of one that is larger than a group.
TEST(PixelLinear, MatricesOfManyGroups) {
  for_each_instruction_set([&] {
    expect_same({{210}, 700, 530});
    expect_same({{210}, 17000, 40});
  });
}

TEST(PixelLinear, ThreadsChangeNoBit) {
  using namespace optimized::conv;
  threads::ThreadPool* const pool = threads::make_pool(2);
  const size_t depth = 300;
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{300, 1100}, {1100, 300}, {30, 1100}}) {
    std::vector<float> in(rows * depth), matrix(depth * columns), bias(columns + columns_of_a_tile());
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (std::vector<float>* numbers : {&in, &matrix, &bias}) {
      std::generate(numbers->begin(), numbers->end(), [&] { return normal(random); });
    }
    PixelProduct product = product_of_matrix(depth, columns);
    std::vector<float> packed(product.group_floats), alone(rows * columns), shared(rows * columns);
    pack_matrix(product, matrix.data(), 0, divide_up(columns, columns_of_a_tile()), packed.data());
    product.filter = packed.data();
    product.bias = bias.data();
    multiply_pixels(product, in.data(), alone.data(), rows);
    multiply_pixels_on(pool, product, in.data(), shared.data(), rows);
    EXPECT_EQ(alone, shared) << rows << " rows";
  }
  threads::destroy_pool(pool);
}

TEST(PixelLinear, TakesOnlyWhatItIsMadeFor) {
  EXPECT_TRUE(fits({{40}, 16, 5}));
  EXPECT_FALSE(fits({{1}, 16, 5}));
}

TEST(PixelLinear, RunsWhereItCostsLess) {
  if (!Call::has_library("aten::linear.out")) {
    GTEST_SKIP() << "no backend with kernels in this build";
  }
  EXPECT_TRUE(is_chosen({{40}, 16, 5})) << "less than a tile of a library";
  // Tiles of 4 rows with SSE4.1, of 5 with AVX2, of 7 with AVX-512; enough of them for what the library's call takes.
  // Costs of Arm are derived, and say nothing of its tiles (design note 15).
  if (runtime::this_isa() != ops::TargetIsa::kArm) {
    EXPECT_EQ(is_chosen({{140}, 64, 64}), runtime::this_isa() == ops::TargetIsa::kAmx) << "whole tiles of a library";
  }
  if (runtime::this_isa() == ops::TargetIsa::kAvx512) {
    EXPECT_TRUE(is_chosen({{24}, 16, 64})) << "a library computes 28 rows";
    EXPECT_TRUE(is_chosen({{28}, 16, 72})) << "a library computes 96 columns";
  }
}

}  // namespace
}  // namespace et::kernels::testing
