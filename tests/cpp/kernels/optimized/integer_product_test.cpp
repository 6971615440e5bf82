// Products of int8 (quantized/integer_product.h), by pairs, chains, bytes, quads and patches, beside the plain kernels.
// They are equal bit for bit on every instruction set. Sizes stand around tiles, panels and blocks. Integers stand at
// their ends, and sums of weights reach the end of 16 bits.

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "instruction_sets.h"
#include "kernels/optimized/vec/priorities.h"
#include "quantized_convolution_call.h"
#include "runtime/host/instruction_set.h"
#include "runtime/host/kernel_costs.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kWindows = optimized::kPriorityWindows, kLinear = optimized::kPriorityPixels;

enum Integers {
  kAny,
  kEnds,
  kHalves,    ///< weights of 4 bits
  kSmall,     ///< weights that chains are made of
  kFew,       ///< the same and now and then a large one
  kAtTheEnd,  ///< pairs whose weights add up to 128, which any input at its end fills
  kKinds
};

int weight_of(Integers integers, int byte) {
  switch (integers) {
    case kEnds: return byte < 0 ? -128 : 127;
    case kSmall: return byte / 8;
    case kFew: return byte > 124 ? 127 : byte < -125 ? -128 : byte / 16;
    case kAtTheEnd: return byte < 0 ? -64 : 64;
    default: return byte;
  }
}

void expect_linear(int64_t rows, int64_t depth, int64_t columns, Integers integers, int part = 1) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << depth << " x " << columns << ", integers " << integers);
  Call call("et::quantized_linear.out");
  call.bytes_of(ScalarType::Char, {rows, depth});
  if (part > 1) {
    call.change_bytes([&](int byte) { return byte / part; });
  }
  if (integers == kEnds || integers == kAtTheEnd) {
    call.ends();
  }
  call.number(0.02).integer(integers == kEnds ? 127 : integers == kAtTheEnd ? -128 : -5);
  const bool is_packed = integers == kHalves;
  call.bytes_of(is_packed ? ScalarType::Byte : ScalarType::Char, {columns, is_packed ? (depth + 1) / 2 : depth});
  call.change_bytes([&](int byte) { return weight_of(integers, byte); }).as_constant();
  if (columns % 2 == 0) {
    std::vector<int32_t> bias;
    for (int64_t i = 0; i < columns; ++i) {
      bias.push_back(static_cast<int32_t>(i * 7919 % 20011 - 10000));
    }
    call.constant({columns}, kRowMajor, 0.001f, 0.01f).constant_values(bias, {columns});
  } else {
    call.constant({1}, kRowMajor, 0.001f, 0.01f).none();
  }
  call.number(0.01 * static_cast<double>(depth) / 8).integer(-3).integer(-128).integer(120);
  call.out({rows, columns}, kRowMajor, ScalarType::Char).expect_same(kLinear);
}

TEST(IntegerProduct, LinearOfOddSizes) {
  for_each_instruction_set([] {
    for (const int64_t rows : {1, 2, 5, 6, 7, 11, 17, 18, 19, 50, 97}) {
      for (const int64_t depth : {1, 2, 3, 15, 16, 31, 33, 64, 129}) {
        for (const int64_t columns : {1, 3, 4, 7, 8, 9, 16, 17, 31, 33, 70}) {
          expect_linear(rows, depth, columns, static_cast<Integers>((rows + depth + columns) % kKinds));
        }
      }
    }
  });
}

// 3,000 products of -255 and -128, or of 255 and 127, and all that stands between blocks.
TEST(IntegerProduct, LinearOfLargeSizes) {
  for_each_instruction_set([] {
    for (const Integers integers : {kAny, kEnds, kHalves, kSmall, kFew, kAtTheEnd}) {
      expect_linear(130, 3001, 40, integers);
      expect_linear(1000, 200, 33, integers);
      expect_linear(1, 2048, 300, integers);
    }
  });
}

// Rows of bytes (byte_loop.cpp): sums of eight quads, of four and of each, and with numbers that are multiplied in 16
// bits: few, many, or all.
TEST(IntegerProduct, LinearOfSmallNumbers) {
  for_each_instruction_set([] {
    for (const Integers integers : {kAny, kEnds, kHalves, kSmall, kFew}) {
      for (const int part : {1, 2, 3, 4, 8, 64}) {
        expect_linear(23, 96, 96, integers, part);
        expect_linear(9, 301, 113, integers, part);
      }
      expect_linear(70, 1024, 100, integers, 2);
      expect_linear(1, 130, 97, integers, 3);
    }
  });
}

// Both loops, and a group's columns up to a vector's end.
TEST(IntegerProduct, WindowsOfSmallWeights) {
  for_each_instruction_set([] {
    for (const Integers integers : {kSmall, kFew}) {
      const auto weight = [&](int byte) { return weight_of(integers, byte); };
      expect_equal({{2, 40, 9, 10}, {52, 20, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {2, 52, 9, 10}}, kChannelsLast,
                   kChannelsLast, 2, kWindows, weight);
      expect_equal({{1, 33, 17, 11}, {72, 33, 3, 5}, {2, 1}, {0, 2}, {1, 1}, {1, 72, 8, 11}}, kChannelsLast,
                   kChannelsLast, 1, kWindows, weight);
    }
  });
}

TEST(IntegerProduct, Windows) {
  // clang-format off
  const IntegerConvolution images[] = {
      {{1, 24, 9, 11}, {40, 24, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 40, 9, 11}},
      {{2, 5, 9, 12}, {7, 5, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {2, 7, 9, 12}},
      {{2, 16, 9, 12}, {20, 16, 1, 1}, {2, 2}, {0, 0}, {1, 1}, {2, 20, 5, 6}},
      {{1, 3, 33, 35}, {16, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}, {1, 16, 17, 18}},
      {{1, 7, 12, 11}, {9, 7, 3, 5}, {2, 1}, {0, 2}, {1, 1}, {1, 9, 5, 11}},
      {{2, 9, 12, 11}, {12, 9, 3, 2}, {1, 2}, {3, 2}, {3, 2}, {2, 12, 12, 7}},                 // dilated
      {{1, 6, 3, 2}, {11, 6, 3, 3}, {1, 1}, {4, 5}, {1, 1}, {1, 11, 9, 10}},                   // beside the image
      {{1, 70, 40, 41}, {33, 70, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 33, 40, 41}},              // blocks
      {{1, 1, 5, 6}, {4, 1, 5, 6}, {1, 1}, {0, 0}, {1, 1}, {1, 4, 1, 1}},                      // one window
  };
  // clang-format on
  for_each_instruction_set([&] {
    for (const IntegerConvolution& image : images) {
      expect_equal(image, kChannelsLast, kChannelsLast, 1, kWindows);
    }
    expect_equal({{2, 24, 9, 10}, {36, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {2, 36, 9, 10}}, kChannelsLast, kChannelsLast,
                 3, kWindows);
    expect_equal({{1, 10, 7, 8}, {22, 5, 2, 3}, {2, 1}, {1, 2}, {1, 2}, {1, 22, 4, 8}}, kChannelsLast, kChannelsLast, 2,
                 kWindows);
  });
}

TEST(IntegerProduct, WindowsOfLines) {
  // clang-format off
  const IntegerConvolution lines[] = {
      {{2, 24, 50}, {40, 24, 3}, {2}, {0}, {1}, {2, 40, 24}},
      {{1, 7, 33}, {9, 7, 5}, {1}, {2}, {3}, {1, 9, 25}},       // dilated
      {{1, 70, 400}, {33, 70, 10}, {5}, {0}, {1}, {1, 33, 79}},
      {{3, 12, 1}, {8, 12, 1}, {1}, {0}, {1}, {3, 8, 1}},
      {{1, 6, 2}, {11, 6, 3}, {1}, {4}, {1}, {1, 11, 8}},       // beside the line
  };
  // clang-format on
  for_each_instruction_set([&] {
    for (const IntegerConvolution& line : lines) {
      expect_equal(line, kChannelsLast, kChannelsLast, 1, kWindows);
    }
    expect_equal({{2, 24, 19}, {36, 8, 4}, {1}, {2}, {1}, {2, 36, 20}}, kChannelsLast, kChannelsLast, 3, kWindows);
  });
}

// Windows that are read where they stand (QuadLines): several blocks of an image, images of a batch, lines that are
// left out, and images that are narrower than what stands beside them.
TEST(IntegerProduct, WindowsWhereTheyStand) {
  // clang-format off
  const IntegerConvolution images[] = {
      {{3, 128, 50, 40}, {33, 128, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {3, 33, 50, 40}},
      {{2, 4, 19, 23}, {16, 4, 5, 3}, {2, 1}, {2, 1}, {1, 1}, {2, 16, 10, 23}},
      {{2, 12, 21, 13}, {40, 12, 3, 3}, {3, 2}, {0, 3}, {2, 1}, {2, 40, 6, 9}},    // dilated downwards
      {{1, 8, 9, 2}, {17, 8, 3, 4}, {1, 1}, {4, 5}, {1, 1}, {1, 17, 15, 9}},       // mostly beside the image
      {{1, 4, 1, 6}, {5, 4, 2, 9}, {1, 1}, {3, 9}, {1, 1}, {1, 5, 6, 16}},
      {{1, 1, 30, 31}, {8, 1, 4, 4}, {4, 4}, {0, 0}, {1, 1}, {1, 8, 7, 7}},        // pixels that no window meets
      {{1, 3, 17, 30}, {70, 3, 1, 4}, {1, 2}, {0, 1}, {1, 1}, {1, 70, 17, 15}},
      {{2, 3, 40, 41}, {32, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {2, 32, 20, 21}},    // rows with a gap
      {{1, 3, 3, 4}, {8, 3, 3, 3}, {1, 1}, {0, 0}, {1, 1}, {1, 8, 1, 2}},
      {{3, 5, 20, 9}, {50, 5, 2, 5}, {1, 4}, {1, 2}, {9, 1}, {3, 50, 13, 3}},
  };
  // clang-format on
  for_each_instruction_set([&] {
    for (const IntegerConvolution& image : images) {
      expect_equal(image, kChannelsLast, kChannelsLast, 1, kWindows);
      expect_equal(image, kChannelsLast, kChannelsLast, 1, kWindows, [](int byte) { return weight_of(kEnds, byte); });
    }
  });
}

// One constant in two shapes whose rows are padded alike: 7x6 and 6x7 taps of a channel are 56 and 48 numbers.
TEST(IntegerProduct, OneConstantInTwoShapesIsPackedTwice) {
  for_each_instruction_set([] {
    for (const int64_t rows : {7, 6}) {
      const int64_t columns = 13 - rows;
      expect_equal({{1, 1, 20, 21}, {8, 1, rows, columns}, {1, 1}, {0, 0}, {1, 1}, {1, 8, 21 - rows, 22 - columns}},
                   kChannelsLast, kChannelsLast, 1, kWindows);
    }
  });
}

// Windows of 3x3 by patches (patch_loop.cpp): channels and columns around vectors, patches that end beside the image.
TEST(IntegerProduct, AnyPatches) {
  std::mt19937 random(35);
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for_each_instruction_set([&] {
    for (int i = 0; i < 25; ++i) {
      const int64_t groups = draw(1, 3) / 2 + 1, in = draw(16, 70), out = draw(16, 70), batch = draw(2, 3);
      const int64_t padding[] = {draw(0, 2), draw(0, 2)}, size[] = {draw(8, 13), draw(8, 13)};
      expect_equal({{batch, in * groups, size[0], size[1]},
                    {out * groups, in, 3, 3},
                    {1, 1},
                    {padding[0], padding[1]},
                    {1, 1},
                    {batch, out * groups, size[0] + 2 * padding[0] - 2, size[1] + 2 * padding[1] - 2}},
                   kChannelsLast, kChannelsLast, groups, kWindows);
    }
  });
}

// Four times a sum of so many channels nearly fills 32 bits.
TEST(IntegerProduct, PatchesOfTheMostChannels) {
  for_each_instruction_set([] {
    for (const int64_t channels : {1820, 1821}) {
      expect_equal({{6, channels, 4, 3}, {16, channels, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {6, 16, 4, 3}}, kChannelsLast,
                   kChannelsLast, 1, kWindows, [](int) { return -128; });
    }
  });
}

// The row of 3x3 was measured with patches: each window costs what the tables say of the loop that multiplies it.
TEST(IntegerProduct, OffersWhatWasMeasured) {
  using ops::WorkKind;
  // `ns_of_rows`: what windows take to become rows, beyond what the kind's costs have for it.
  const auto expect_kind = [](WorkKind kind, const IntegerConvolution& c, int64_t groups, double ns_of_rows) {
    const std::vector<int64_t>& out = c.output;
    const auto results = static_cast<double>(out[0] * out[1] * out[2] * out[3]);
    ops::Work work =
        ops::work_of(ops::ConvolutionForm{{c.weight.data(), c.weight.size()}, groups, false, true, false, 0, results});
    work.kind = kind;
    work.numbers = ops::WorkNumbers::int8;
    EXPECT_NEAR(call_of(c, kChannelsLast, kChannelsLast, groups, 5).offered(kWindows),
                runtime::cost_here(work, ops::kKernelCosts) + ns_of_rows, 1e-6);
  };
  const std::vector<int64_t> one{1, 1}, two{2, 2};
  if ((HWY_AVX2 & hwy::SupportedTargets()) == 0) {
    GTEST_SKIP() << "no AVX2";
  }
  hwy::SetSupportedTargetsForTest(HWY_AVX2);
  runtime::leave_avx_vnni_out(true);
  expect_kind(WorkKind::convolution_3x3, {{1, 64, 9, 9}, {64, 64, 3, 3}, one, one, one, {1, 64, 9, 9}}, 1, 0);
  expect_kind(WorkKind::convolution_3x3, {{1, 64, 9, 9}, {64, 32, 3, 3}, one, one, one, {1, 64, 9, 9}}, 2, 0);
  expect_kind(WorkKind::convolution, {{1, 64, 7, 9}, {64, 64, 3, 3}, one, one, one, {1, 64, 7, 9}}, 1,
              63 * 576 * 0.09 * (1 - 64.0 / 32));
  expect_kind(WorkKind::convolution, {{1, 8, 9, 9}, {64, 8, 3, 3}, one, one, one, {1, 64, 9, 9}}, 1,
              81 * 72 * 0.09 * (1 - 64.0 / 32));
  expect_kind(WorkKind::convolution, {{1, 8, 9, 9}, {8, 8, 5, 5}, one, two, one, {1, 8, 9, 9}}, 1,
              81 * 200 * 0.09 * (1 - 8.0 / 32));
  expect_kind(WorkKind::convolution, {{1, 64, 9, 9}, {64, 64, 3, 3}, two, one, one, {1, 64, 5, 5}}, 1,
              25 * 576 * 0.09 * (1 - 64.0 / 32));
  runtime::leave_avx_vnni_out(false);
  hwy::SetSupportedTargetsForTest(0);
}

TEST(IntegerProduct, AnyConvolution) {
  std::mt19937 random(33);
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 150; ++i) {
    const int64_t groups = draw(0, 3) == 0 ? draw(2, 4) : 1, in = draw(1, 40), out = draw(groups == 1 ? 1 : 4, 40);
    const int64_t kernel[] = {draw(1, 5), draw(1, 5)}, stride[] = {draw(1, 3), draw(1, 3)};
    const int64_t padding[] = {draw(0, 3), draw(0, 3)}, dilation[] = {draw(1, 2), draw(1, 2)}, batch = draw(1, 2);
    int64_t size[2], result[2];
    for (int d = 0; d < 2; ++d) {
      const int64_t reach = (kernel[d] - 1) * dilation[d] + 1;
      size[d] = std::max<int64_t>(draw(1, 14), reach - 2 * padding[d]);
      result[d] = (size[d] + 2 * padding[d] - reach) / stride[d] + 1;
    }
    expect_equal({{batch, in * groups, size[0], size[1]},
                  {out * groups, in, kernel[0], kernel[1]},
                  {stride[0], stride[1]},
                  {padding[0], padding[1]},
                  {dilation[0], dilation[1]},
                  {batch, out * groups, result[0], result[1]}},
                 kChannelsLast, kChannelsLast, groups, kWindows);
  }
}

}  // namespace
}  // namespace et::kernels::testing
