// Transposed convolution without overlap: sizes around the tiles of pixels and the strips, filter orders, and what is
// not taken. With overlap: any sizes, lines and images, in both orders.

#include <limits>

#include "filter_forms.h"
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/conv/planes.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kPriority = optimized::kPriorityTransposed;

struct Convolution {
  int64_t batch, in, out, height, width, kernel_h, kernel_w;
};

struct Options : FilterForm {
  Order order = kChannelsLast;
  bool constant = true;
  int64_t more_stride = 0, padding = 0, dilation = 1, groups = 1;
};

Call& describe(Call& call, const Convolution& c, const Options& o) {
  const int64_t stride_h = c.kernel_h + o.more_stride;
  const int64_t stride_w = c.kernel_w + o.more_stride;
  const std::vector<int64_t> filter = {c.in, c.out / o.groups, c.kernel_h, c.kernel_w};
  call.tensor({c.batch, c.in, c.height, c.width}, o.order);
  o.constant ? call.constant(filter, o.weight) : call.tensor(filter, o.weight);
  o.bias ? call.constant({c.out}) : call.none();
  call.list({stride_h, stride_w}).list({o.padding, o.padding}).list({o.dilation, o.dilation});
  call.flag(true).list({0, 0}).integer(o.groups);
  if (o.clamp) {
    call.number(-5.0).number(8.0);
  }
  const auto extent = [&](int64_t size, int64_t kernel, int64_t stride) {
    return (size - 1) * stride - 2 * o.padding + o.dilation * (kernel - 1) + 1;
  };
  return call.out({c.batch, c.out, extent(c.height, c.kernel_h, stride_h), extent(c.width, c.kernel_w, stride_w)},
                  o.order);
}

void expect_same(const Convolution& c, const Options& o) {
  SCOPED_TRACE(::testing::Message() << c.batch << " x " << c.in << " -> " << c.out << ", " << c.height << " x "
                                    << c.width << ", filter " << c.kernel_h << " x " << c.kernel_w);
  Call call(convolution_of(o));
  describe(call, c, o).expect_same(kPriority, 1e-6);
}

bool fits(const Convolution& c, const Options& o) {
  Call call(convolution_of(o));
  return describe(call, c, o).fits(kPriority);
}

TEST(TransposedConvolution, PixelsAroundTheTiles) {
  for (const int64_t width : {1, 2, 3, 5, 6, 7, 11, 12, 13, 25, 97}) {
    for (const int64_t height : {1, 2, 9}) {
      expect_same({2, 7, 10, height, width, 2, 2}, {});
    }
  }
}

TEST(TransposedConvolution, ColumnsAroundTheStrips) {
  for (const int64_t out : {1, 3, 4, 7, 8, 9, 15, 16, 17, 32, 33}) {
    for (const int64_t kernel_w : {1, 2, 3}) {
      expect_same({1, 20, out, 6, 11, 2, kernel_w}, {});
    }
  }
}

TEST(TransposedConvolution, ManyPixelsOnThreads) {
  expect_same({1, 64, 32, 33, 31, 2, 2}, {});
  expect_same({3, 33, 16, 40, 24, 4, 3}, {});
}

TEST(TransposedConvolution, FilterOrdersBiasAndLimits) {
  for_each_filter_form<Options>([](const Options& options) { expect_same({1, 24, 10, 12, 13, 2, 3}, options); });
}

TEST(TransposedConvolution, NotANumberStaysVisible) {
  Call call("et::convolution_clamp.out");
  call.tensor({1, 24, 12, 13}, kChannelsLast).set(0, std::numeric_limits<float>::quiet_NaN());
  call.constant({24, 10, 2, 2}).none().list({2}).list({0}).list({1}).flag(true).list({0}).integer(1);
  call.number(-5.0).number(8.0).out({1, 10, 24, 26}, kChannelsLast);
  expect_nan_in_front(call, kPriority);
}

TEST(TransposedConvolution, EveryInstructionSet) {
  for_each_instruction_set([&] {
    expect_same({1, 45, 19, 17, 18, 2, 2}, {});
    expect_same({2, 5, 9, 3, 1, 3, 1}, {});
  });
}

TEST(TransposedConvolution, AnyOverlap) {
  std::mt19937 random(35);
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 200; ++i) {
    const int64_t batch = draw(1, 2), in = draw(4, 40), out = draw(1, 20);
    std::vector<int64_t> input = {batch, in}, filter = {in, out}, stride, padding, extra, result = {batch, out};
    for (int64_t d = 0, count = draw(1, 2); d < count; ++d) {
      stride.push_back(draw(1, 3));
      extra.push_back(draw(0, stride.back() - 1));
      input.push_back(draw(1, 9));
      filter.push_back(stride.back() + (d == 0 ? draw(1, 4) : draw(0, 3)));
      const int64_t whole = (input.back() - 1) * stride.back() + filter.back() + extra.back();
      padding.push_back(draw(0, (whole - 1) / 2));
      result.push_back(whole - 2 * padding.back());
    }
    const Order before = draw(0, 1) == 0 ? kRowMajor : kChannelsLast, after = draw(0, 1) == 0 ? before : kRowMajor;
    FilterForm form;
    form.bias = draw(0, 1) == 0;
    form.clamp = draw(0, 1) == 0;
    SCOPED_TRACE(::testing::Message() << "input " << ::testing::PrintToString(input) << " in order " << before
                                      << ", filter " << ::testing::PrintToString(filter) << ", stride "
                                      << ::testing::PrintToString(stride) << ", padding "
                                      << ::testing::PrintToString(padding) << ", output in order " << after);
    Call call(convolution_of(form));
    call.tensor(input, before).constant(filter);
    form.bias ? call.constant({out}) : call.none();
    call.list(stride).list(padding).list({1}).flag(true).list(extra).integer(1);
    if (form.clamp) {
      call.number(-5.0).number(8.0);
    }
    // Here a sum is one of sums over channels, there it has one order: up to 2.2e-6 of the largest apart.
    call.out(result, after).expect_same(optimized::conv::kPriorityPlanes, 4e-6);
  }
}

TEST(TransposedConvolution, TakesOnlyWhatItIsMadeFor) {
  const Convolution c = {1, 16, 8, 9, 9, 2, 2};
  EXPECT_TRUE(fits(c, {}));
  Options options;
  options.more_stride = 1;
  EXPECT_FALSE(fits(c, options));
  options.more_stride = -1;
  EXPECT_FALSE(fits(c, options));
  options = {};
  options.padding = 1;
  EXPECT_FALSE(fits(c, options));
  options = {};
  options.dilation = 2;
  EXPECT_FALSE(fits(c, options));
  options = {};
  options.groups = 2;
  EXPECT_FALSE(fits(c, options));
  options = {};
  options.constant = false;
  EXPECT_FALSE(fits(c, options));
  options = {};
  options.order = kRowMajor;
  EXPECT_FALSE(fits(c, options));
}

}  // namespace
}  // namespace et::kernels::testing
