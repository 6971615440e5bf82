// Depthwise convolutions between convolutions of 1x1, strip by strip: images of more rows than a strip, borders,
// strides, with and without expansion, every instruction set, and the bits of the convolutions alone.

#include "filter_forms.h"
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/vec/priorities.h"

namespace et::kernels::testing {
namespace {

struct Block {
  int64_t batch, in_channels, channels, out_channels, height, width, kernel, stride, pad;
  bool expands = true;

  int64_t extent(int64_t size) const { return (size + 2 * pad - kernel) / stride + 1; }
};

struct Options : FilterForm {
  Order order = kChannelsLast;

  Options() { clamp = true; }
};

Call& describe(Call& call, const Block& b, const Options& o) {
  const auto range = [&](double low, double high) { o.clamp ? call.number(low).number(high) : call.none().none(); };
  const auto bias = [&](int64_t channels) { o.bias ? call.constant({channels}) : call.none(); };
  call.tensor({b.batch, b.expands ? b.in_channels : b.channels, b.height, b.width}, o.order);
  if (b.expands) {
    call.constant({b.channels, b.in_channels, 1, 1}, o.weight);
    bias(b.channels);
    range(0.0, 6.0);
  } else {
    call.none().none().none().none();
  }
  call.constant({b.channels, 1, b.kernel, b.kernel}, o.weight);
  bias(b.channels);
  call.list({b.stride, b.stride}).list({b.pad});
  range(-1.0, 5.0);
  call.constant({b.out_channels, b.channels, 1, 1}, o.weight);
  bias(b.out_channels);
  range(-200.0, 200.0);
  return call.out({b.batch, b.out_channels, b.extent(b.height), b.extent(b.width)}, o.order);
}

void expect_same(const Block& b, const Options& o = {}) {
  SCOPED_TRACE(::testing::Message() << b.channels << " channels, " << b.height << " x " << b.width << ", kernel "
                                    << b.kernel << ", stride " << b.stride << ", padding " << b.pad);
  Call call("et::separable_convolution.out");
  describe(call, b, o).expect_same(runtime::kPriorityOptimized, 2e-6);
}

bool fits(const Block& b, const Options& o = {}) {
  Call call("et::separable_convolution.out");
  return describe(call, b, o).fits(runtime::kPriorityOptimized);
}

TEST(SeparableConvolution, ImagesOfSeveralStrips) {
  // Rows of 100 x 160 floats: a strip is a few of them.
  for (const int64_t stride : {1, 2}) {
    for (const int64_t kernel : {3, 5}) {
      expect_same({1, 4, 160, 12, 29, 100, kernel, stride, kernel / 2});
      expect_same({1, 0, 160, 12, 29, 100, kernel, stride, kernel / 2, false});
    }
  }
  expect_same({1, 3, 700, 5, 9, 110, 3, 1, 1});  // a row is more than a strip may have
}

TEST(SeparableConvolution, SizesAndBorders) {
  for (const bool expands : {false, true}) {
    for (const int64_t kernel : {3, 5}) {
      for (const int64_t stride : {1, 2}) {
        for (int64_t pad = 0; pad < kernel; ++pad) {
          expect_same({1, 7, 20, 9, 11, 9, kernel, stride, pad, expands});
          expect_same({2, 7, 20, 9, 6, 13, kernel, stride, pad, expands});
        }
      }
    }
    for (int64_t size = 1; size < 3; ++size) {
      expect_same({3, 5, 17, 4, size, size, 3, 1, 1, expands});
    }
  }
}

TEST(SeparableConvolution, ImagesAreSharedByThreads) {
  expect_same({3, 6, 40, 16, 25, 31, 3, 1, 1});
  expect_same({5, 6, 40, 16, 7, 31, 3, 2, 1, false});
}

TEST(SeparableConvolution, FilterOrdersBiasAndLimits) {
  for_each_filter_form<Options>([](const Options& options) { expect_same({1, 8, 24, 10, 12, 13, 3, 1, 1}, options); });
}

TEST(SeparableConvolution, EveryInstructionSet) {
  for_each_instruction_set([&] {
    expect_same({1, 9, 45, 21, 17, 18, 3, 1, 1});
    expect_same({1, 9, 45, 70, 17, 18, 5, 2, 2});
  });
}

TEST(SeparableConvolution, BitsOfTheConvolutionsAlone) {
  // Channels that pixel_convolution.cpp takes, so that all three run on the kernels that are joined here.
  Call whole("et::separable_convolution.out");
  whole.tensor({1, 8, 40, 50}, kChannelsLast);
  whole.constant({18, 8, 1, 1}).constant({18}).number(0.0).number(6.0);
  whole.constant({18, 1, 3, 3}).constant({18}).list({1, 1}).list({1, 1}).number(0.0).number(6.0);
  whole.constant({18, 18, 1, 1}).constant({18}).none().none().out({1, 18, 40, 50}, kChannelsLast);
  const std::vector<float> joined = whole.output(runtime::kPriorityOptimized);

  std::vector<float> image;
  const auto convolve = [&](size_t weight, std::vector<int64_t> sizes, int64_t in, int64_t pad, int64_t groups,
                            bool clamps) {
    Call call("et::convolution_clamp.out");
    call.tensor({1, in, 40, 50}, kChannelsLast);
    for (size_t i = 0; i < image.size(); ++i) {
      call.set(i, image[i]);
    }
    const std::vector<float> taps = whole.floats(weight), bias = whole.floats(weight + 1);
    call.constant_values(taps, std::move(sizes)).constant_values(bias, {18});
    call.list({1, 1}).list({pad, pad}).list({1, 1}).flag(false).list({0, 0}).integer(groups);
    clamps ? call.number(0.0).number(6.0) : call.none().none();
    const uint8_t alone = groups == 1 ? optimized::kPriorityPixels : optimized::kPriorityDepthwise;
    image = call.out({1, 18, 40, 50}, kChannelsLast).output(alone);
  };
  image = whole.floats(0);
  convolve(1, {18, 8, 1, 1}, 8, 0, 1, true);
  convolve(3, {18, 1, 3, 3}, 18, 1, 18, true);
  convolve(5, {18, 18, 1, 1}, 18, 0, 1, false);
  EXPECT_EQ(joined, image);
}

TEST(SeparableConvolution, TakesOnlyWhatItIsMadeFor) {
  EXPECT_TRUE(fits({1, 8, 32, 8, 9, 9, 3, 1, 1}));
  EXPECT_FALSE(fits({1, 8, 32, 8, 9, 9, 7, 1, 1}));
  EXPECT_FALSE(fits({1, 8, 32, 8, 9, 9, 3, 3, 1}));
  EXPECT_FALSE(fits({1, 8, 32, 8, 9, 9, 3, 1, 3}));
  Options options;
  options.order = kRowMajor;
  EXPECT_FALSE(fits({1, 8, 32, 8, 9, 9, 3, 1, 1}, options));
}

}  // namespace
}  // namespace et::kernels::testing
