// Integer convolutions beside the plain kernel, equal bit for bit: the library's, and products of gathered windows
// where channels are few.

#include "instruction_sets.h"
#include "kernels/optimized/vec/priorities.h"
#include "quantized_convolution_call.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityLibrary;

TEST(QuantizedLibrary, GathersWindowsOfFewChannels) {
  // clang-format off
  const IntegerConvolution images[] = {
      {{1, 3, 65, 70}, {8, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}, {1, 8, 33, 35}},         // a first layer
      {{2, 3, 150, 90}, {5, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {2, 5, 150, 90}},       // several blocks, two images
      {{1, 1, 49, 10}, {64, 1, 10, 4}, {2, 2}, {4, 1}, {1, 1}, {1, 64, 24, 5}},       // a spectrogram
      {{1, 4, 9, 11}, {6, 4, 3, 2}, {2, 1}, {0, 2}, {2, 3}, {1, 6, 3, 12}},           // apart
      {{1, 2, 5, 6}, {3, 2, 5, 6}, {1, 1}, {4, 5}, {1, 1}, {1, 3, 9, 11}},            // windows mostly beside the image
      {{1, 3, 20, 40}, {4, 3, 2, 15}, {3, 2}, {1, 7}, {1, 1}, {1, 4, 7, 20}},         // runs of 45 bytes
      {{1, 3, 8, 8}, {2, 3, 8, 8}, {1, 1}, {0, 0}, {1, 1}, {1, 2, 1, 1}},             // one pixel
  };
  // clang-format on
  for (const IntegerConvolution& c : images) {
    for (const Order order : {kRowMajor, kChannelsLast}) {
      expect_equal(c, order, order);
    }
  }
  expect_equal(images[0], kRowMajor, kChannelsLast);
}

TEST(QuantizedLibrary, GathersWindowsOfSound) {
  expect_equal({{1, 1, 60011}, {16, 1, 10}, {5}, {0}, {1}, {1, 16, 12001}}, kRowMajor, kRowMajor);
  expect_equal({{2, 2, 333}, {7, 2, 5}, {1}, {4}, {2}, {2, 7, 333}}, kRowMajor, kRowMajor);
}

TEST(QuantizedLibrary, PlanesSideBySide) {
  // clang-format off
  const IntegerConvolution volumes[] = {
      {{2, 3, 6, 9, 11}, {8, 3, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {2, 8, 6, 9, 11}},
      {{1, 1, 5, 9, 11}, {4, 1, 3, 3, 3}, {1, 1, 1}, {2, 1, 1}, {1, 1, 1}, {1, 4, 7, 9, 11}},  // few channels
      {{2, 2, 40, 60, 80}, {3, 2, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {2, 3, 40, 60, 80}},  // blocks
      {{1, 5, 9, 8, 10}, {7, 5, 3, 2, 3}, {2, 1, 2}, {3, 0, 1}, {2, 1, 1}, {1, 7, 6, 7, 5}},
      {{2, 5, 4, 6, 7}, {7, 5, 1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, {2, 7, 4, 3, 4}},       // planes as they are
      {{1, 128, 11, 30, 31}, {8, 128, 3, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 1, 1}, {1, 8, 11, 30, 31}},  // several blocks
  };
  // clang-format on
  for (const IntegerConvolution& c : volumes) {
    for (const Order order : {kRowMajor, kChannelsLast}) {
      expect_equal(c, order, order);
    }
  }
  expect_equal({{1, 12, 7, 8, 10}, {18, 4, 3, 2, 3}, {2, 1, 2}, {3, 0, 1}, {2, 1, 1}, {1, 18, 5, 7, 5}}, kRowMajor,
               kChannelsLast, 3);
  expect_equal({{1, 9, 7, 8, 10}, {9, 1, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 9, 7, 8, 10}}, kRowMajor,
               kRowMajor, 9);
}

// The library's tiles have 16 pixels of 64 channels where the processor multiplies tiles.
TEST(QuantizedLibrary, ChannelsAndPixelsAroundTiles) {
  for (const int64_t in : {3, 5, 63, 64, 65, 130}) {
    for (const int64_t out : {1, 16, 65}) {
      for (const int64_t width : {1, 2, 11, 16, 17, 33}) {
        expect_equal({{1, in, 1, width}, {out, in, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {1, out, 1, width}}, kChannelsLast,
                     kChannelsLast);
        expect_equal({{1, in, 3, width}, {out, in, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, out, 3, width}}, kChannelsLast,
                     kChannelsLast);
      }
    }
  }
}

class QuantizedDepthwise : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HWY_ARCH_X86) {
      GTEST_SKIP() << "on Arm the library's kernel takes these";
    }
  }
};

TEST_F(QuantizedDepthwise, IsThePlainKernel) {
  constexpr uint8_t kFirst = optimized::kPriorityDepthwise;
  for (const int64_t c : {2, 3, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 72, 96, 100, 144}) {
    const IntegerConvolution images[] = {
        {{1, c, 9, 11}, {c, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, c, 9, 11}},
        {{2, c, 12, 7}, {c, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {2, c, 6, 4}},
        {{1, c, 8, 8}, {c, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}, {1, c, 8, 8}},
        {{2, c, 9, 11}, {c, 1, 5, 5}, {2, 2}, {2, 2}, {1, 1}, {2, c, 5, 6}},
        {{1, c, 9, 11}, {c, 1, 7, 7}, {1, 1}, {3, 3}, {1, 1}, {1, c, 9, 11}},
        {{2, c, 9, 12}, {c, 1, 7, 7}, {2, 2}, {3, 2}, {1, 1}, {2, c, 5, 5}},
        {{1, c, 12, 11}, {c, 1, 9, 11}, {1, 1}, {4, 5}, {1, 1}, {1, c, 12, 11}},
        {{1, c, 9, 10}, {c, 1, 3, 3}, {2, 1}, {0, 2}, {1, 1}, {1, c, 4, 12}},
        {{1, c, 6, 5}, {c, 1, 5, 5}, {1, 2}, {4, 0}, {1, 1}, {1, c, 10, 1}},
        {{1, c, 7, 13}, {c, 1, 2, 3}, {2, 1}, {0, 3}, {3, 2}, {1, c, 2, 15}},
        {{1, c, 3, 2}, {c, 1, 3, 3}, {1, 1}, {4, 5}, {1, 1}, {1, c, 9, 10}},  // windows mostly beside the image
    };
    for (const IntegerConvolution& image : images) {
      expect_equal(image, kChannelsLast, kChannelsLast, c, kFirst);
    }
  }
}

// Threads share the pixels of a line.
TEST_F(QuantizedDepthwise, Lines) {
  for_each_instruction_set([&] {
    for (const int64_t c : {3, 16, 33, 70}) {
      const IntegerConvolution lines[] = {
          {{1, c, 1200}, {c, 1, 3}, {1}, {1}, {1}, {1, c, 1200}}, {{3, c, 90}, {c, 1, 31}, {1}, {15}, {1}, {3, c, 90}},
          {{2, c, 77}, {c, 1, 5}, {2}, {0}, {4}, {2, c, 31}},     {{2, c, 4}, {c, 1, 9}, {1}, {7}, {1}, {2, c, 10}},
          {{1, c, 1}, {c, 1, 1}, {1}, {0}, {1}, {1, c, 1}},       {{1, c, 300}, {c, 1, 256}, {3}, {2}, {1}, {1, c, 17}},
      };
      for (const IntegerConvolution& line : lines) {
        expect_equal(line, kChannelsLast, kChannelsLast, c, optimized::kPriorityDepthwise);
      }
      // A row under a filter of several rows is no line.
      expect_equal({{2, c, 1, 50}, {c, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {2, c, 1, 50}}, kChannelsLast, kChannelsLast,
                   c, optimized::kPriorityDepthwise);
    }
  });
}

TEST_F(QuantizedDepthwise, EveryInstructionSet) {
  for_each_instruction_set([&] {
    for (const int64_t c : {3, 8, 21, 45, 90}) {
      expect_equal({{1, c, 12, 7}, {c, 1, 3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, c, 6, 7}}, kChannelsLast, kChannelsLast, c,
                   optimized::kPriorityDepthwise);
    }
  });
}

}  // namespace
}  // namespace et::kernels::testing
