// Convolutions of 1x1 with tiles of half a vector: channels around the tiles, numbers of pixels around theirs, every
// instruction set, and what is left to others.

#include <limits>

#include "filter_forms.h"
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/amx/tiles.h"
#include "kernels/optimized/vec/priorities.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kPriority = optimized::kPriorityPixels;

struct Convolution {
  int64_t batch, in_channels, out_channels, height, width;
};

struct Options : FilterForm {
  Order order = kChannelsLast;
  bool line = false;  // tensors of three dims: the height is 1
};

Call& describe(Call& call, const Convolution& c, const Options& o) {
  call.tensor(sizes_of(o.line, {c.batch, c.in_channels, c.height, c.width}), o.order);
  call.constant(sizes_of(o.line, {c.out_channels, c.in_channels, 1, 1}), o.weight);
  o.bias ? call.constant({c.out_channels}) : call.none();
  call.list({1})
      .list(o.line ? std::vector<int64_t>{0} : std::vector<int64_t>{0, 0})
      .list({1})
      .flag(false)
      .list({0})
      .integer(1);
  if (o.clamp) {
    call.number(-3.0).number(6.0);
  }
  return call.out(sizes_of(o.line, {c.batch, c.out_channels, c.height, c.width}), o.order);
}

void expect_same(const Convolution& c, const Options& o) {
  SCOPED_TRACE(::testing::Message() << c.in_channels << " to " << c.out_channels << " channels, " << c.height << " x "
                                    << c.width);
  Call call(convolution_of(o));
  describe(call, c, o).expect_same(kPriority, 1e-6);
}

bool fits(const Convolution& c, const Options& o) {
  Call call(convolution_of(o));
  return describe(call, c, o).fits(kPriority);
}

TEST(PixelConvolution, ChannelsAroundTheTiles) {
  int taken = 0;
  for (int64_t channels = 1; channels <= 80; ++channels) {
    const Convolution c{1, 13, channels, 6, 10};
    if (fits(c, {})) {
      ++taken;
      expect_same(c, {});
    }
  }
  EXPECT_GT(taken, 10);
}

TEST(PixelConvolution, PixelsAroundTheTiles) {
  for (int64_t width = 24; width <= 40; ++width) {
    if (fits({1, 9, 18, 1, width}, {})) {
      expect_same({1, 9, 18, 1, width}, {});
    }
  }
  expect_same({2, 33, 18, 12, 16}, {});  // blocks, and what is left behind them
  expect_same({3, 7, 18, 40, 15}, {});
}

TEST(PixelConvolution, Lines) {
  Options options;
  options.line = true;
  expect_same({1, 9, 18, 1, 40}, options);
  expect_same({3, 33, 50, 1, 900}, options);
}

TEST(PixelConvolution, FilterOrdersBiasAndLimits) {
  for_each_filter_form<Options>([](const Options& options) { expect_same({1, 24, 18, 12, 12}, options); });
}

TEST(PixelConvolution, NotANumberStaysVisible) {
  Call call("et::convolution_clamp.out");
  call.tensor({1, 20, 12, 12}, kChannelsLast).set(0, std::numeric_limits<float>::quiet_NaN());
  call.constant({18, 20, 1, 1}).none().list({1}).list({0}).list({1}).flag(false).list({0}).integer(1);
  call.number(0.0).number(6.0).out({1, 18, 12, 12}, kChannelsLast);
  expect_nan_in_front(call, kPriority);
}

TEST(PixelConvolution, EveryInstructionSet) {
  for_each_instruction_set([&] {
    int taken = 0;
    for (int64_t channels = 1; channels <= 50; ++channels) {
      const Convolution c{1, 11, channels, 12, 12};
      if (fits(c, {})) {
        ++taken;
        expect_same(c, {});
      }
    }
    EXPECT_GT(taken, 0);
  });
}

TEST(PixelConvolution, TakesOnlyWhatItIsMadeFor) {
  EXPECT_TRUE(fits({1, 32, 18, 12, 12}, {}));
  Options options;
  options.order = kRowMajor;
  EXPECT_FALSE(fits({1, 32, 18, 12, 12}, options));
}

TEST(PixelConvolution, RunsWhereItCostsLess) {
  const auto is_chosen = [](const Convolution& c) {
    Call call("aten::convolution.out");
    return describe(call, c, {}).chosen() == kPriority;
  };
  EXPECT_TRUE(is_chosen({1, 32, 18, 12, 12})) << "a library computes 32 columns";
  EXPECT_TRUE(is_chosen({1, 32, 8, 31, 33}));
}

}  // namespace
}  // namespace et::kernels::testing
