// Depthwise convolution: sizes around the blocks of pixels and the vectors, borders, strides, and what is not taken.

#include <limits>

#include "filter_forms.h"
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/conv/planes.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kPriority = optimized::kPriorityDepthwise;

struct Convolution {
  int64_t batch, channels, height, width, kernel, stride, pad_h, pad_w;
};

struct Options : FilterForm {
  Order order = kChannelsLast;
  int64_t dilation = 1;
  bool line = false;  // tensors of three dims: height and pad_h are 1 and 0
};

Call& describe(Call& call, const Convolution& c, const Options& o) {
  call.tensor(sizes_of(o.line, {c.batch, c.channels, c.height, c.width}), o.order);
  call.constant(sizes_of(o.line, {c.channels, 1, c.kernel, c.kernel}), o.weight);
  o.bias ? call.constant({c.channels}) : call.none();
  using List = std::vector<int64_t>;
  call.list({c.stride})
      .list(o.line ? List{c.pad_w} : List{c.pad_h, c.pad_w})
      .list({o.dilation})
      .flag(false)
      .list({0})
      .integer(c.channels);
  if (o.clamp) {
    call.number(0.0).number(6.0);
  }
  const auto extent = [&](int64_t size, int64_t pad) {
    return (size + 2 * pad - o.dilation * (c.kernel - 1) - 1) / c.stride + 1;
  };
  const int64_t height = o.line ? 1 : extent(c.height, c.pad_h);
  return call.out(sizes_of(o.line, {c.batch, c.channels, height, extent(c.width, c.pad_w)}), o.order);
}

void expect_same(const Convolution& c, const Options& o) {
  SCOPED_TRACE(::testing::Message() << c.channels << " channels, " << c.height << " x " << c.width << ", kernel "
                                    << c.kernel << ", stride " << c.stride << ", padding " << c.pad_h << ", "
                                    << c.pad_w);
  Call call(convolution_of(o));
  describe(call, c, o).expect_same(kPriority, 1e-6);
}

bool fits(const Convolution& c, const Options& o) {
  Call call(convolution_of(o));
  return describe(call, c, o).fits(kPriority);
}

TEST(Depthwise, WidthsAroundTheBlocks) {
  for (const int64_t kernel : {3, 5, 7}) {
    for (const int64_t stride : {1, 2}) {
      for (int64_t width = kernel; width <= 19; ++width) {
        for (int64_t pad = 0; pad < kernel; ++pad) {
          expect_same({1, 20, 7, width, kernel, stride, 1, pad}, {});
        }
      }
      expect_same({1, 5, 40, 131, kernel, stride, 1, 1}, {});
    }
  }
}

TEST(Depthwise, ImagesSmallerThanTheKernel) {
  for (const int64_t kernel : {2, 3, 5, 6, 7}) {
    for (int64_t size = 1; size < kernel; ++size) {
      expect_same({2, 17, size, size, kernel, 1, kernel - 1, kernel - 1}, {});
      expect_same({2, 17, size, size, kernel, 2, kernel / 2, kernel / 2}, {});
    }
  }
}

TEST(Depthwise, ChannelsAroundTheVectors) {
  for (const int64_t channels : {2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 72, 240}) {
    for (const int64_t kernel : {3, 4, 5, 7, 9}) {
      expect_same({2, channels, 14, 15, kernel, 1, kernel / 2, kernel / 2}, {});
    }
  }
}

TEST(Depthwise, FiltersOfAnySizeStrideAndDilation) {
  for (const auto& [kernel_h, kernel_w] :
       {std::pair<int64_t, int64_t>{1, 5}, {5, 1}, {2, 3}, {9, 9}, {1, 1}, {31, 4}}) {
    for (const auto& [stride_h, stride_w] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {3, 4}}) {
      for (const auto& [dilation_h, dilation_w] : {std::pair<int64_t, int64_t>{1, 1}, {2, 3}}) {
        for (const auto& [pad_h, pad_w] : {std::pair<int64_t, int64_t>{0, 0}, {1, 2}, {40, 33}}) {
          const auto extent = [](int64_t size, int64_t pad, int64_t kernel, int64_t stride, int64_t dilation) {
            return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
          };
          const int64_t height = 62, width = 47;
          Call call("et::convolution_clamp.out");
          call.tensor({2, 19, height, width}, kChannelsLast).constant({19, 1, kernel_h, kernel_w}).constant({19});
          call.list({stride_h, stride_w}).list({pad_h, pad_w}).list({dilation_h, dilation_w}).flag(false).list({0});
          call.integer(19).number(-9.0).number(8.0);
          call.out({2, 19, extent(height, pad_h, kernel_h, stride_h, dilation_h),
                    extent(width, pad_w, kernel_w, stride_w, dilation_w)},
                   kChannelsLast);
          call.expect_same(kPriority, 3e-6);  // sums of up to 124 products, in another order
        }
      }
    }
  }
}

TEST(Depthwise, Lines) {
  for_each_instruction_set([] {
    Options options;
    options.line = true;
    for (const int64_t kernel : {1, 2, 3, 9, 31}) {
      for (const int64_t stride : {1, 2, 5}) {
        for (const int64_t dilation : {1, 4}) {
          options.dilation = dilation;
          for (const int64_t pad : {0L, kernel / 2, kernel + 3}) {
            expect_same({2, 21, 1, 140, kernel, stride, 0, pad}, options);
          }
          expect_same({1, 64, 1, 3000, kernel, stride, 0, 1}, options);  // threads share it
        }
      }
    }
  });
}

TEST(Depthwise, FilterOrdersBiasAndLimits) {
  for_each_filter_form<Options>([](const Options& options) { expect_same({1, 24, 12, 13, 3, 1, 1, 1}, options); });
}

TEST(Depthwise, NotANumberStaysVisible) {
  Call call("et::convolution_clamp.out");
  call.tensor({1, 20, 8, 8}, kChannelsLast).set(0, std::numeric_limits<float>::quiet_NaN());
  call.constant({20, 1, 3, 3}).none().list({1}).list({1}).list({1}).flag(false).list({0}).integer(20);
  call.number(0.0).number(6.0).out({1, 20, 8, 8}, kChannelsLast);
  expect_nan_in_front(call, kPriority);
}

TEST(Depthwise, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const int64_t kernel : {3, 4, 5, 7}) {
      for (const int64_t stride : {1, 2, 3}) {
        expect_same({1, 45, 17, 18, kernel, stride, kernel / 2, kernel / 2}, {});
      }
    }
  });
}

TEST(Depthwise, Planes) {
  constexpr uint8_t kOfPlanes = optimized::conv::kPriorityPlaneDepthwise;
  Options options;
  options.order = kRowMajor;
  const auto of_planes = [&](const Convolution& c) {
    SCOPED_TRACE(::testing::Message() << c.height << " x " << c.width << ", stride " << c.stride << ", padding "
                                      << c.pad_h << ", " << c.pad_w);
    Call call(convolution_of(options));
    describe(call, c, options).expect_same(kOfPlanes, 1e-6);
  };
  for_each_instruction_set([&] {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t height : {1, 3, 7, 10}) {
        for (const int64_t width : {1, 2, 3, 15, 16, 17, 31, 33, 40, 131}) {
          options.bias = width % 2 == 0;
          options.clamp = height % 2 == 0;
          of_planes({2, 5, height, width, 3, stride, 1, 1});
          of_planes({1, 2, height, width, 3, stride, 4, 2});
        }
        of_planes({1, 3, height + 2, 21, 3, stride, 0, 0});
      }
    }
    of_planes({1, 40, 33, 34, 3, 1, 1, 1});  // which threads share
  });
  const auto is_of_planes = [&](const Convolution& c, const Options& o) {
    Call call(convolution_of(o));
    return describe(call, c, o).fits(kOfPlanes);
  };
  EXPECT_TRUE(is_of_planes({1, 32, 9, 9, 3, 1, 1, 1}, options));
  EXPECT_FALSE(is_of_planes({1, 32, 9, 9, 5, 1, 1, 1}, options));
  EXPECT_FALSE(is_of_planes({1, 32, 9, 9, 3, 3, 1, 1}, options));
  EXPECT_FALSE(is_of_planes({1, 32, 9, 9, 3, 1, 1, 1}, {}));
}

TEST(Depthwise, TakesOnlyWhatItIsMadeFor) {
  EXPECT_TRUE(fits({1, 32, 9, 9, 3, 1, 1, 1}, {}));
  Options options;
  options.order = kRowMajor;
  EXPECT_FALSE(fits({1, 32, 9, 9, 3, 1, 1, 1}, options));
}

}  // namespace
}  // namespace et::kernels::testing
