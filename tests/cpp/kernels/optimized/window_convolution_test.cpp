// Convolutions whose windows are multiplied where they stand: filters, strides and borders of all kinds, rows of pixels
// around the tiles, strips of rows, every instruction set, threads, and what is left to others.

#include <limits>

#include "filter_forms.h"
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/vec/priorities.h"
#include "runtime/host/kernel_costs.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kPriority = optimized::kPriorityWindows;

struct Convolution {
  int64_t batch, in_channels, out_channels, height, width, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
};

struct Options : FilterForm {
  Order order = kChannelsLast;
  int64_t dilation = 1, groups = 1;
  bool line = false;  // tensors of three dims: heights are 1
};

Call& describe(Call& call, const Convolution& c, const Options& o) {
  call.tensor(sizes_of(o.line, {c.batch, c.in_channels, c.height, c.width}), o.order);
  call.constant(sizes_of(o.line, {c.out_channels, c.in_channels / o.groups, c.kernel_h, c.kernel_w}), o.weight);
  o.bias ? call.constant({c.out_channels}) : call.none();
  using List = std::vector<int64_t>;
  call.list(o.line ? List{c.stride_w} : List{c.stride_h, c.stride_w});
  call.list(o.line ? List{c.pad_w} : List{c.pad_h, c.pad_w}).list({o.dilation}).flag(false).list({0});
  call.integer(o.groups);
  if (o.clamp) {
    call.number(-3.0).number(6.0);
  }
  const auto extent = [&](int64_t size, int64_t pad, int64_t kernel, int64_t stride) {
    return (size + 2 * pad - o.dilation * (kernel - 1) - 1) / stride + 1;
  };
  return call.out(sizes_of(o.line, {c.batch, c.out_channels, extent(c.height, c.pad_h, c.kernel_h, c.stride_h),
                                    extent(c.width, c.pad_w, c.kernel_w, c.stride_w)}),
                  o.order);
}

void expect_same(const Convolution& c, const Options& o, double tolerance = 1e-6) {
  SCOPED_TRACE(::testing::Message() << c.in_channels << " to " << c.out_channels << " channels, " << c.height << " x "
                                    << c.width << ", filter " << c.kernel_h << " x " << c.kernel_w << ", stride "
                                    << c.stride_h << ", " << c.stride_w << ", padding " << c.pad_h << ", " << c.pad_w
                                    << ", dilation " << o.dilation << ", groups " << o.groups);
  Call call(convolution_of(o));
  describe(call, c, o).expect_same(kPriority, tolerance);
}

bool fits(const Convolution& c, const Options& o) {
  Call call(convolution_of(o));
  return describe(call, c, o).fits(kPriority);
}

int chosen(const Convolution& c, const Options& o) {
  Call call("aten::convolution.out");
  return describe(call, c, o).chosen();
}

/// Compares where the kernel is taken; returns how often it was.
int expect_same_where_taken(const Convolution& c, const Options& o) {
  if (!fits(c, o)) {
    return 0;
  }
  expect_same(c, o);
  return 1;
}

TEST(WindowConvolution, WidthsAroundTheTiles) {
  int taken = 0;
  for (const int64_t stride : {1, 2, 3}) {
    for (int64_t width = 5; width <= 64; ++width) {
      taken += expect_same_where_taken({1, 3, 8, 23, width, 5, 5, stride, stride, 2, 1}, {});
    }
  }
  EXPECT_GT(taken, 150);
}

TEST(WindowConvolution, ChannelsAroundTheTiles) {
  int taken = 0;
  for (int64_t channels = 1; channels <= 80; ++channels) {
    taken += expect_same_where_taken({1, 3, channels, 15, 25, 3, 3, 2, 2, 1, 1}, {});
  }
  EXPECT_GT(taken, 10);
}

TEST(WindowConvolution, FiltersStridesAndBorders) {
  int taken = 0;
  for (const int64_t kernel_h : {1, 2, 4}) {
    for (const int64_t kernel_w : {1, 3, 7}) {
      for (const int64_t stride : {1, 2, 5}) {
        for (const int64_t pad_h : {0, 1, 3}) {
          for (const int64_t pad_w : {0, 2}) {
            taken += expect_same_where_taken({2, 2, 7, 19, 31, kernel_h, kernel_w, 1, stride, pad_h, pad_w}, {});
            taken += expect_same_where_taken({1, 5, 12, 31, 19, kernel_h, kernel_w, stride, 2, pad_h, pad_w}, {});
          }
        }
      }
    }
  }
  EXPECT_GT(taken, 90);
}

TEST(WindowConvolution, Groups) {
  int taken = 0;
  for (const int64_t groups : {2, 3, 8}) {
    for (const int64_t in_channels : {2, 4, 5}) {
      for (const int64_t out_channels : {1, 2, 8, 11, 33}) {
        for (const int64_t kernel : {1, 2, 3}) {
          Options options;
          options.groups = groups;
          taken += expect_same_where_taken(
              {2, groups * in_channels, groups * out_channels, 14, 17, kernel, 3, 1, 2, kernel / 2, 1}, options);
        }
      }
    }
  }
  EXPECT_GT(taken, 130);
}

TEST(WindowConvolution, Dilations) {
  int taken = 0;
  for (const int64_t dilation : {2, 3}) {
    for (const int64_t groups : {1, 4}) {
      for (const int64_t pad : {0, 1, 2, 4}) {
        Options options;
        options.dilation = dilation;
        options.groups = groups;
        taken += expect_same_where_taken({1, 12, 20, 21, 19, 3, 3, 1, 1, pad, pad}, options);
        taken += expect_same_where_taken({2, 8, 8, 17, 23, 3, 5, 2, 3, pad, 2 * pad}, options);
      }
    }
  }
  EXPECT_EQ(taken, 32);
}

TEST(WindowConvolution, StripsOfRows) {
  expect_same({1, 3, 8, 200, 60, 7, 7, 2, 2, 3, 3}, {});
  expect_same({3, 6, 16, 90, 70, 3, 5, 1, 2, 1, 2}, {});      // images that threads share
  expect_same({1, 3, 4, 9, 6000, 3, 3, 1, 2, 1, 1}, {});      // a row that is larger than a strip may be
  expect_same({2, 16, 16, 33, 40, 1, 1, 2, 2, 0, 0}, {});     // no border: read in place
  expect_same({1, 3, 64, 120, 120, 11, 11, 1, 1, 5, 5}, {});  // whole tiles, for which a library keeps many pointers
}

/// Images of one row and lines, which strips and threads divide by pixels.
void expect_same_lines() {
  int taken = 0;
  for (const bool line : {false, true}) {
    for (const int64_t groups : {1, 2}) {
      for (const int64_t dilation : {1, 3}) {
        Options options;
        options.line = line;
        options.groups = groups;
        options.dilation = dilation;
        for (const int64_t stride : {1, 2, 7}) {
          for (const int64_t pad : {0, 1, 4}) {
            taken += expect_same_where_taken({1, 6, 34, 1, 401, 1, 5, 1, stride, 0, pad}, options);
            taken += expect_same_where_taken({3, 2, 10, 1, 29, 1, 3, 1, stride, 0, pad}, options);
            taken += expect_same_where_taken({2, 48, 40, 1, 2000, 1, 2, 1, stride, 0, pad}, options);  // some strips
          }
        }
      }
    }
  }
  EXPECT_GT(taken, 120);
}

TEST(WindowConvolution, Lines) { expect_same_lines(); }

TEST(WindowConvolution, LinesOnEveryInstructionSet) {
  for_each_instruction_set([] { expect_same_lines(); });
}

TEST(WindowConvolution, LinesWithALargeFilter) {
  Options options;
  options.line = true;
  constexpr double kTolerance = 1e-5;  // sums of 1024 products
  expect_same({1, 512, 520, 1, 90, 1, 2, 1, 1, 0, 0}, options, kTolerance);
  expect_same({1, 512, 520, 1, 700, 1, 2, 1, 2, 0, 1}, options, kTolerance);
}

// A window is longer than a strip may be, or the filters of all groups are larger than the second cache.
TEST(WindowConvolution, LinesWithLongWindows) {
  Options options;
  options.line = true;
  options.groups = 4;
  constexpr double kTolerance = 1e-5;  // sums of a thousand products
  expect_same({1, 256, 192, 1, 50, 1, 128, 1, 1, 0, 64}, options, kTolerance);
  expect_same({2, 64, 64, 1, 700, 1, 257, 1, 3, 0, 0}, options, kTolerance);
  options.groups = 1;
  expect_same({2, 96, 40, 1, 260, 1, 131, 1, 1, 0, 65}, options, kTolerance);
  expect_same({1, 64, 40, 1, 4000, 1, 3, 1, 300, 0, 1}, options, kTolerance);  // windows far apart
}

TEST(WindowConvolution, FilterOrdersBiasAndLimits) {
  for_each_filter_form<Options>([](const Options& options) {
    expect_same({1, 4, 18, 24, 24, 3, 3, 2, 2, 1, 1}, options);
    expect_same({1, 1, 5, 24, 24, 5, 2, 1, 1, 0, 0}, options);
    Options grouped = options;
    grouped.groups = 3;
    expect_same({1, 12, 15, 24, 24, 3, 3, 1, 1, 1, 1}, grouped);
    grouped.line = true;
    expect_same({1, 12, 15, 1, 24, 1, 3, 1, 1, 0, 1}, grouped);
  });
}

TEST(WindowConvolution, NotANumberStaysVisible) {
  Call call("et::convolution_clamp.out");
  call.tensor({1, 3, 24, 24}, kChannelsLast).set(0, std::numeric_limits<float>::quiet_NaN());
  call.constant({8, 3, 3, 3}).none().list({2}).list({1}).list({1}).flag(false).list({0}).integer(1);
  call.number(0.0).number(6.0).out({1, 8, 12, 12}, kChannelsLast);
  expect_nan_in_front(call, kPriority);
}

TEST(WindowConvolution, EveryInstructionSet) {
  for_each_instruction_set([&] {
    int taken = 0;
    for (int64_t channels = 1; channels <= 50; ++channels) {
      taken += expect_same_where_taken({1, 3, channels, 13, 41, 3, 3, 2, 2, 1, 1}, {});
    }
    EXPECT_GT(taken, 0);
    taken = 0;
    for (const int64_t channels : {2, 4, 8, 16, 24}) {
      Options options;
      options.groups = 2;
      taken += expect_same_where_taken({1, 2 * channels, 2 * channels, 13, 41, 3, 3, 1, 1, 1, 1}, options);
    }
    EXPECT_GT(taken, 1);
  });
}

TEST(WindowConvolution, TakesOnlyWhatItIsMadeFor) {
  const Convolution plain{1, 32, 18, 25, 25, 3, 3, 2, 2, 1, 1};
  EXPECT_TRUE(fits(plain, {}));
  EXPECT_FALSE(fits({1, 32, 18, 25, 25, 3, 3, 2, 2, 3, 1}, {}));  // windows that see nothing of the image
  // Tiles of Arm have 8 columns. Processors with AMX compute 32 faster than ours compute 24 (measured, costs.def).
  if (runtime::this_isa() != ops::TargetIsa::kArm && runtime::this_isa() != ops::TargetIsa::kAmx) {
    EXPECT_EQ(chosen(plain, {}), kPriority) << "a library computes 32 columns";
  }
  EXPECT_EQ(chosen({1, 3, 64, 224, 224, 7, 7, 2, 2, 3, 3}, {}), kPriority) << "a library reads 5 MB of pointers";
  Options options;
  options.groups = 32;
  EXPECT_FALSE(fits({1, 32, 32, 25, 25, 3, 3, 1, 1, 1, 1}, options));
  EXPECT_EQ(chosen({1, 32, 32, 25, 25, 3, 3, 1, 1, 1, 1}, options), optimized::kPriorityDepthwise);
  options.groups = 1;
  options.order = kRowMajor;
  EXPECT_FALSE(fits(plain, options));
}

}  // namespace
}  // namespace et::kernels::testing
