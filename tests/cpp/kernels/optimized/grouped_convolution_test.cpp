// Convolutions in groups of a few channels with as many results, of floats and of integers. The cases vary groups,
// borders, strides, dilation, channels around the vectors, rows around the blocks of pixels, every instruction set, and
// what is left to others.

#include "filter_forms.h"
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/vec/priorities.h"
#include "quantized_convolution_call.h"

#include <hwy/per_target.h>

namespace et::kernels::testing {
namespace {

struct Grouped {
  int64_t group, groups, height, width, kernel, stride, pad, dilation = 1;

  int64_t channels() const { return group * groups; }
  int64_t extent(int64_t size) const { return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; }
};

struct Options : FilterForm {};

Call& describe(Call& call, const Grouped& c, const Options& o) {
  call.tensor({2, c.channels(), c.height, c.width}, kChannelsLast);
  call.constant({c.channels(), c.group, c.kernel, c.kernel}, o.weight);
  o.bias ? call.constant({c.channels()}) : call.none();
  call.list({c.stride}).list({c.pad}).list({c.dilation}).flag(false).list({0, 0}).integer(c.groups);
  if (o.clamp) {
    call.number(-3.0).number(6.0);
  }
  return call.out({2, c.channels(), c.extent(c.height), c.extent(c.width)}, kChannelsLast);
}

void expect_same(const Grouped& c, const Options& o = {}) {
  SCOPED_TRACE(::testing::Message() << c.groups << " groups of " << c.group << ", " << c.height << " x " << c.width
                                    << ", filter " << c.kernel << ", stride " << c.stride << ", padding " << c.pad);
  Call call(convolution_of(o));
  describe(call, c, o).expect_same(optimized::kPriorityDepthwise, 1e-6);
}

void expect_equal_integers(const Grouped& c) {
  SCOPED_TRACE(::testing::Message() << c.groups << " groups of " << c.group << ", " << c.height << " x " << c.width
                                    << ", filter " << c.kernel << ", stride " << c.stride << ", padding " << c.pad);
  expect_equal({{2, c.channels(), c.height, c.width},
                {c.channels(), c.group, c.kernel, c.kernel},
                {c.stride, c.stride},
                {c.pad, c.pad},
                {c.dilation, c.dilation},
                {2, c.channels(), c.extent(c.height), c.extent(c.width)}},
               kChannelsLast, kChannelsLast, c.groups, optimized::kPriorityGroups);
}

bool integers_fit(const Grouped& c) {
  Call call("et::quantized_convolution.out");
  call.bytes_of(ScalarType::Char, {1, c.channels(), 8, 8}, kChannelsLast).number(0.02).integer(0);
  call.bytes_of(ScalarType::Char, {c.channels(), c.group, 3, 3}).as_constant();
  call.constant({1}, kRowMajor, 0.002f, 0.005f).none().list({1, 1}).list({1, 1}).list({1, 1}).flag(false);
  call.list({0, 0}).integer(c.groups).number(0.2).integer(0).integer(-128).integer(127);
  call.out({1, c.channels(), 8, 8}, kChannelsLast, ScalarType::Char);
  return call.fits(optimized::kPriorityGroups);
}

const Grouped kForms[] = {
    {4, 8, 9, 30, 3, 1, 1},  {4, 9, 6, 11, 3, 2, 1}, {8, 4, 14, 14, 3, 1, 1}, {8, 5, 7, 7, 3, 2, 0},
    {4, 32, 5, 24, 3, 1, 1}, {4, 5, 8, 9, 1, 1, 0},  {8, 3, 12, 19, 5, 1, 2}, {4, 6, 11, 23, 3, 1, 2, 2},
    {8, 16, 3, 2, 3, 1, 1},  {4, 4, 1, 40, 3, 3, 1}, {8, 2, 10, 10, 7, 2, 3}, {4, 7, 4, 4, 3, 1, 3},
};

TEST(GroupedConvolution, FormsOfFloats) {
  for (const Grouped& form : kForms) {
    if (static_cast<size_t>(form.group) * sizeof(float) <= hwy::VectorBytes()) {
      expect_same(form);
    } else {
      Call call("aten::convolution.out");
      EXPECT_FALSE(describe(call, form, {}).fits(optimized::kPriorityDepthwise)) << "more channels than lanes";
    }
  }
  expect_same({2, 8, 9, 30, 3, 1, 1});
  expect_same({2, 21, 6, 11, 3, 2, 1});
  for (int64_t width = 1; width <= 24; ++width) {
    expect_same({4, 5, 3, width, 3, 1, 1});
  }
}

TEST(GroupedConvolution, FormsOfFilters) {
  for_each_filter_form<Options>([](const Options& options) { expect_same({4, 9, 10, 12, 3, 1, 1}, options); });
}

TEST(GroupedConvolution, EveryInstructionSet) {
  for_each_instruction_set([] {
    for (const Grouped& form : kForms) {
      Call call("aten::convolution.out");
      if (describe(call, form, {}).fits(optimized::kPriorityDepthwise)) {
        expect_same(form);
      }
      if (integers_fit(form)) {
        expect_equal_integers(form);
      }
    }
  });
}

TEST(GroupedConvolution, Chosen) {
  const auto chosen = [](const Grouped& form) {
    Call call("aten::convolution.out");
    return describe(call, form, {}).chosen();
  };
  EXPECT_EQ(chosen({2, 32, 14, 14, 3, 1, 1}), optimized::kPriorityDepthwise);
  EXPECT_NE(chosen({3, 32, 14, 14, 3, 1, 1}), optimized::kPriorityDepthwise);
  EXPECT_NE(chosen({16, 32, 14, 14, 3, 1, 1}), optimized::kPriorityDepthwise);
}

TEST(QuantizedGrouped, IsThePlainKernel) {
  if (!integers_fit({4, 8, 8, 8, 3, 1, 1})) {
    GTEST_SKIP() << "this processor does not multiply four bytes of a lane";
  }
  int taken = 0;
  for (Grouped form : kForms) {
    if (integers_fit(form)) {
      expect_equal_integers(form);
      ++taken;
    }
  }
  EXPECT_GT(taken, 9);
  for (int64_t width = 1; width <= 24; ++width) {
    expect_equal_integers({4, 5, 3, width, 3, 1, 1});
  }
  expect_equal({{3, 32, 500}, {32, 4, 11}, {2}, {5}, {1}, {3, 32, 250}}, kChannelsLast, kChannelsLast, 8,
               optimized::kPriorityGroups);
  expect_equal({{1, 40, 31}, {40, 8, 3}, {1}, {4}, {2}, {1, 40, 35}}, kChannelsLast, kChannelsLast, 5,
               optimized::kPriorityGroups);
  EXPECT_FALSE(integers_fit({4, 3, 8, 8, 3, 1, 1}));   // not a whole vector of channels
  EXPECT_FALSE(integers_fit({2, 16, 8, 8, 3, 1, 1}));  // half of a lane's bytes
  EXPECT_FALSE(integers_fit({16, 4, 8, 8, 3, 1, 1}));  // a library's columns are full
}

}  // namespace
}  // namespace et::kernels::testing
