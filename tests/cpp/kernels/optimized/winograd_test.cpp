// Convolution by Winograd's filtering: which arguments it takes, and that what it gives agrees with direct convolution.

#include "kernels/optimized/conv/winograd.h"
#include "filter_forms.h"
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/portable/register.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kPriority = optimized::kPriorityWinograd;
constexpr double kMin = -15.0, kMax = 40.0;

struct Convolution {
  int64_t batch, in, out, height, width, pad_h, pad_w;
};

struct Options : FilterForm {
  Order order = kChannelsLast;
  int64_t stride = 1, dilation = 1;
  bool constant = true;
};

/// Of a filter with planes.
struct Depth {
  int64_t size, kernel, pad, stride = 1, dilation = 1;
};

Call& describe(Call& call, const Convolution& c, const Options& o) {
  call.tensor({c.batch, c.in, c.height, c.width}, o.order);
  o.constant ? call.constant({c.out, c.in, 3, 3}, o.weight) : call.tensor({c.out, c.in, 3, 3}, o.weight);
  o.bias ? call.constant({c.out}) : call.none();
  call.list({o.stride}).list({c.pad_h, c.pad_w}).list({o.dilation, o.dilation}).flag(false).list({0, 0}).integer(1);
  if (o.clamp) {
    call.number(kMin).number(kMax);
  }
  const auto extent = [&](int64_t size, int64_t pad) { return (size + 2 * pad - 2 * o.dilation - 1) / o.stride + 1; };
  return call.out({c.batch, c.out, extent(c.height, c.pad_h), extent(c.width, c.pad_w)}, o.order);
}

Call& describe(Call& call, const Convolution& c, const Depth& d, const Options& o) {
  call.tensor({c.batch, c.in, d.size, c.height, c.width}, o.order).constant({c.out, c.in, d.kernel, 3, 3}, o.weight);
  o.bias ? call.constant({c.out}) : call.none();
  call.list({d.stride, o.stride, o.stride}).list({d.pad, c.pad_h, c.pad_w}).list({d.dilation, 1, 1}).flag(false);
  call.list({0, 0, 0}).integer(1);
  if (o.clamp) {
    call.number(kMin).number(kMax);
  }
  const int64_t planes = (d.size + 2 * d.pad - d.dilation * (d.kernel - 1) - 1) / d.stride + 1;
  return call.out(
      {c.batch, c.out, planes, (c.height + 2 * c.pad_h - 3) / o.stride + 1, (c.width + 2 * c.pad_w - 3) / o.stride + 1},
      o.order);
}

/// The portable kernels, and Winograd's with tiles of this side.
runtime::KernelRegistry with_tiles_of(size_t side) {
  runtime::KernelRegistry registry;
  EXPECT_EQ(portable::register_portable_kernels(registry), Error::Ok);
  EXPECT_EQ(registry.add(optimized::conv::winograd_kernels_with_tiles_of(side)), Error::Ok);
  return registry;
}

/// How far the largest sum is beyond the limits, at least 1: the rounding errors are those of the sums.
template <typename... Shape>
double beyond_limits(Options o, const Shape&... shape) {
  if (!o.clamp) {
    return 1;
  }
  o.clamp = false;
  Call call(convolution_of(o));
  double largest = kMax;
  for (const float sum : describe(call, shape..., o).output(runtime::kPriorityPortable)) {
    largest = std::max(largest, std::abs(static_cast<double>(sum)));
  }
  return largest / kMax;
}

void expect_same(const Convolution& c, const Options& o) {
  SCOPED_TRACE(::testing::Message() << c.batch << " x " << c.in << " -> " << c.out << ", " << c.height << " x "
                                    << c.width << ", padding " << c.pad_h << ", " << c.pad_w);
  for (const size_t side : {2, 4}) {
    SCOPED_TRACE(::testing::Message() << "tiles of " << side);
    const runtime::KernelRegistry registry = with_tiles_of(side);
    Call call(convolution_of(o), registry);
    describe(call, c, o).expect_same(kPriority, 5e-6 * beyond_limits(o, c));
  }
}

void expect_same_volume(const Convolution& c, const Depth& d, const Options& o = {}) {
  SCOPED_TRACE(::testing::Message() << d.size << " planes, " << d.kernel << " of the filter, padding " << d.pad
                                    << ", dilation " << d.dilation << "; " << c.batch << " x " << c.in << " -> "
                                    << c.out << ", " << c.height << " x " << c.width);
  for (const size_t side : {2, 4}) {
    const runtime::KernelRegistry registry = with_tiles_of(side);
    Call call(convolution_of(o), registry);
    describe(call, c, d, o).expect_same(kPriority, 5e-6 * beyond_limits(o, c, d));
  }
}

bool fits_volume(const Convolution& c, const Depth& d, const Options& o = {}) {
  Call call(convolution_of(o));
  return describe(call, c, d, o).fits(kPriority);
}

bool fits(const Convolution& c, const Options& o) {
  Call call(convolution_of(o));
  return describe(call, c, o).fits(kPriority);
}

TEST(Winograd, SizesAroundTheTiles) {
  for (const int64_t size : {10, 11, 12, 13, 14, 23}) {
    for (const int64_t pad : {0, 1, 2}) {
      expect_same({1, 32, 32, size, size + 1, pad, 1}, {});
      expect_same({2, 16, 16, size + 2, size, 2, pad}, {});
    }
  }
}

TEST(Winograd, ChannelsAroundTheVectors) {
  for (const int64_t in : {15, 16, 20, 31, 33, 70}) {
    for (const int64_t out : {4, 5, 16, 17, 31, 32, 33, 49, 70}) {
      expect_same({1, in, out, 14, 15, 1, 1}, {});
    }
  }
  expect_same({1, 8, 4, 14, 15, 1, 1}, {});
}

TEST(Winograd, FewTilesOfManyChannels) {  // threads share the output channels
  expect_same({1, 256, 256, 14, 14, 1, 1}, {});
  expect_same({1, 96, 160, 13, 11, 1, 1}, {});
  expect_same({1, 260, 250, 11, 12, 1, 0}, {});
  expect_same({2, 400, 200, 9, 10, 1, 1}, {});
}

TEST(Winograd, ManyBlocks) {
  expect_same({3, 48, 40, 61, 67, 1, 1}, {});
  expect_same({1, 16, 16, 130, 130, 1, 1}, {});
}

TEST(Winograd, FilterOrdersBiasAndLimits) {
  for_each_filter_form<Options>([](const Options& options) { expect_same({1, 24, 40, 17, 18, 1, 1}, options); });
}

TEST(Winograd, LargePadding) { expect_same({1, 16, 16, 9, 9, 7, 5}, {}); }

TEST(Winograd, PlanesOfVolumes) {
  for (const int64_t size : {3, 4, 8, 9, 17}) {
    for (const int64_t pad : {0, 1, 2, 3}) {
      expect_same_volume({1, 16, 20, 9, 10, 1, 1}, {size, 3, pad});
    }
  }
  expect_same_volume({2, 33, 16, 13, 14, 0, 1}, {5, 3, 1});
  expect_same_volume({3, 16, 48, 8, 8, 1, 1}, {1, 1, 0});
  expect_same_volume({2, 16, 16, 8, 9, 1, 1}, {4, 1, 1});
  expect_same_volume({1, 16, 16, 8, 9, 1, 1}, {7, 2, 1});
  expect_same_volume({1, 16, 16, 8, 9, 1, 1}, {12, 5, 2});
  expect_same_volume({2, 16, 16, 8, 9, 1, 1}, {9, 3, 2, 1, 2});
  expect_same_volume({1, 16, 16, 8, 9, 1, 1}, {5, 3, 4, 1, 2});
}

TEST(Winograd, VolumesInBlocksAndOnThreads) {
  expect_same_volume({1, 24, 20, 31, 37, 1, 1}, {20, 3, 1});
  expect_same_volume({1, 64, 160, 6, 7, 1, 1}, {4, 3, 1});
  expect_same_volume({3, 48, 32, 9, 9, 1, 1}, {11, 3, 1});
}

TEST(Winograd, FilterOrdersBiasAndLimitsOfVolumes) {
  for_each_filter_form<Options>(
      [](const Options& options) { expect_same_volume({1, 24, 40, 9, 10, 1, 1}, {5, 3, 1}, options); });
}

TEST(Winograd, VolumesWithChannelsOutermost) {
  Options options;
  options.order = kRowMajor;
  expect_same_volume({2, 33, 20, 9, 10, 1, 1}, {5, 3, 1}, options);
}

TEST(Winograd, VolumesThatItIsNotMadeFor) {
  const Convolution c{1, 32, 32, 16, 16, 1, 1};
  EXPECT_TRUE(fits_volume(c, {16, 3, 1}));
  EXPECT_FALSE(fits_volume(c, {16, 3, 1, 2}));
  EXPECT_FALSE(fits_volume(c, {5, 3, 1000, 1, 1000}));  // patches between the planes would be kept
  Options options;
  options.stride = 2;
  EXPECT_FALSE(fits_volume(c, {16, 3, 1}, options));
}

TEST(Winograd, TakesOnlyWhatItIsMadeFor) {
  const Convolution c{1, 32, 32, 28, 28, 1, 1};
  EXPECT_TRUE(fits(c, {}));
  Options options;
  options.order = kRowMajor;
  EXPECT_FALSE(fits(c, options));
  options = {};
  options.stride = 2;
  EXPECT_FALSE(fits(c, options));
  options = {};
  options.dilation = 2;
  EXPECT_FALSE(fits(c, options));
  options = {};
  options.constant = false;
  EXPECT_FALSE(fits(c, options));
}

TEST(Winograd, StaysAwayWhereDirectConvolutionIsFaster) {
  const auto is_chosen = [](const Convolution& c) {
    Call call("aten::convolution.out");
    return describe(call, c, {}).chosen() == kPriority;
  };
  EXPECT_TRUE(is_chosen({1, 64, 64, 28, 28, 1, 1}));
  EXPECT_FALSE(is_chosen({1, 1, 8, 64, 64, 1, 1})) << "transforms take longer than the products";
  EXPECT_FALSE(is_chosen({1, 1024, 1024, 3, 3, 1, 1})) << "reading the filter does";
  Call volume("aten::convolution.out");
  EXPECT_NE(describe(volume, {1, 1, 8, 32, 32, 1, 1}, {16, 3, 1}, {}).chosen(), kPriority);
}

TEST(Winograd, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const int64_t in : {32, 45}) {
      for (const int64_t out : {32, 45, 60}) {
        expect_same({1, in, out, 25, 26, 1, 1}, {});
      }
    }
    expect_same({1, 256, 256, 14, 14, 1, 1}, {});
    expect_same_volume({1, 45, 33, 10, 11, 1, 1}, {6, 3, 1});
  });
}

TEST(Winograd, NotANumberStaysVisible) {
  const runtime::KernelRegistry registry = with_tiles_of(4);
  Call call("et::convolution_clamp.out", registry);
  call.tensor({1, 16, 12, 12}, kChannelsLast).set(0, std::numeric_limits<float>::quiet_NaN());
  call.constant({16, 16, 3, 3}).none().list({1}).list({1}).list({1}).flag(false).list({0}).integer(1);
  call.number(0.0).none().out({1, 16, 12, 12}, kChannelsLast);
  expect_nan_in_front(call, kPriority);
}

}  // namespace
}  // namespace et::kernels::testing
