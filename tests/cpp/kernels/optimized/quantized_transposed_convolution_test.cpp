// Transposed convolutions of int8 as products of windows, beside the plain kernel: bit for bit, in both orders of each
// image and filter, on every instruction set.

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "instruction_sets.h"
#include "kernels/optimized/vec/priorities.h"
#include "quantized_convolution_call.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kPriority = optimized::kPriorityTransposed;

/// Sizes of one spatial dimension.
struct Line {
  int64_t size, kernel, stride = 1, padding = 0, extra = 0, dilation = 1;

  int64_t output() const { return (size - 1) * stride - 2 * padding + (kernel - 1) * dilation + 1 + extra; }
};

IntegerConvolution transposed(int64_t batch, int64_t in, int64_t out, const std::vector<Line>& lines,
                              int64_t groups = 1) {
  IntegerConvolution c{{batch, in}, {in, out / groups}, {}, {}, {}, {batch, out}};
  for (const Line& line : lines) {
    c.input.push_back(line.size);
    c.weight.push_back(line.kernel);
    c.stride.push_back(line.stride);
    c.padding.push_back(line.padding);
    c.dilation.push_back(line.dilation);
    c.output_padding.push_back(line.extra);
    c.output.push_back(line.output());
  }
  return c;
}

bool fits(const IntegerConvolution& c, int64_t groups = 1) {
  return call_of(c, kRowMajor, kRowMajor, groups, 5).fits(kPriority);
}

TEST(QuantizedTransposedConvolution, Decoders) {
  for_each_instruction_set([] {
    expect_equal(transposed(1, 64, 1, {{99, 16, 8}}), kRowMajor, kRowMajor, 1, kPriority);  // of sound
    expect_equal(transposed(2, 40, 24, {{17, 16, 8, 4}}), kRowMajor, kRowMajor, 1, kPriority);
    expect_equal(transposed(1, 32, 16, {{9, 2, 2}, {11, 2, 2}}), kChannelsLast, kChannelsLast, 1, kPriority);
    expect_equal(transposed(1, 33, 17, {{7, 4, 2, 1}, {8, 4, 2, 1}}), kRowMajor, kRowMajor, 1, kPriority);
    expect_equal(transposed(1, 16, 8, {{7, 3, 2, 1, 1}, {6, 3, 2, 1, 1}}), kChannelsLast, kRowMajor, 1, kPriority);
  });
}

TEST(QuantizedTransposedConvolution, AnySizes) {
  std::mt19937 random(34);
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  const auto order = [&] { return draw(0, 1) == 0 ? kRowMajor : kChannelsLast; };
  for (int i = 0; i < 400; ++i) {
    std::vector<Line> lines(static_cast<size_t>(draw(1, 2)));
    for (Line& line : lines) {
      line = {draw(1, 9), draw(1, 6)};
      line.stride = draw(1, std::min<int64_t>(4, 2 * line.kernel));
      line.extra = draw(0, line.stride - 1);
      line.padding = draw(0, std::max<int64_t>(0, (line.output() - 1) / 2));
    }
    IntegerConvolution c = transposed(draw(1, 2), draw(1, 40), draw(1, 20), lines);
    c.weight_order = order();
    const Order in = order(), out = order();
    SCOPED_TRACE(::testing::Message() << "input " << ::testing::PrintToString(c.input) << " in order " << in
                                      << ", filter " << ::testing::PrintToString(c.weight) << " in order "
                                      << c.weight_order << ", output " << ::testing::PrintToString(c.output)
                                      << " in order " << out << ", stride " << ::testing::PrintToString(c.stride)
                                      << ", padding " << ::testing::PrintToString(c.padding));
    expect_equal(c, in, out, 1, kPriority);
  }
}

TEST(QuantizedTransposedConvolution, SizesOfTheCall) {
  expect_equal(transposed(0, 4, 3, {{5, 3, 2}}), kRowMajor, kRowMajor, 1, kPriority);
  expect_equal(transposed(1, 4, 3, {{3, 2, 2, 3}}), kRowMajor, kRowMajor, 1, kPriority);  // nothing is left
}

TEST(QuantizedTransposedConvolution, TakesOnlyWhatItIsMadeFor) {
  EXPECT_TRUE(fits(transposed(1, 4, 6, {{5, 3, 2}})));
  EXPECT_FALSE(fits(transposed(1, 4, 6, {{5, 3, 2}}, 2), 2));
  EXPECT_FALSE(fits(transposed(1, 4, 6, {{5, 3, 2, 0, 0, 2}})));
  EXPECT_FALSE(fits(transposed(1, 4, 6, {{5, 3, 2, 0, 2}})));
  EXPECT_FALSE(fits(transposed(1, 4, 6, {{5, 256, 2}})));
  EXPECT_FALSE(fits(transposed(1, 4, 6, {{5, 1, 5}})));  // four products of zeros beside one
  EXPECT_FALSE(fits(transposed(1, 4, 6, {{5, 3, 2}, {5, 3, 2}, {5, 3, 2}})));
  IntegerConvolution plain = transposed(1, 4, 4, {{5, 3, 1, 1}});
  plain.output_padding.clear();
  EXPECT_FALSE(fits(plain));
}

}  // namespace
}  // namespace et::kernels::testing
