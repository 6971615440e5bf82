// Linear layers of many rows and few outputs: outputs around the tiles, rows around theirs, every instruction set, and
// what is left to others.

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
  describe(call, l, bias, clamp).expect_same(kPriority, 1e-6);
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
