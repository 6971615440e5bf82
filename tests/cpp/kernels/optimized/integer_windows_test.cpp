// Integer convolutions as windows, equal to the plain kernel bit for bit: pixels, channels and runs around tiles,
// borders, strides, dilation and several images.

#include "instruction_sets.h"
#include "kernels/optimized/vec/priorities.h"
#include "quantized_convolution_call.h"

namespace et::kernels::testing {
namespace {

constexpr uint8_t kPriority = optimized::kPriorityWindows;

struct Layer {
  int64_t batch, in, out, height, width, kernel, stride = 1, pad = 0, dilation = 1;
};

void expect_same(const Layer& l) {
  SCOPED_TRACE(::testing::Message() << l.batch << " x " << l.in << " -> " << l.out << ", " << l.height << " x "
                                    << l.width << ", kernel " << l.kernel << ", stride " << l.stride << ", padding "
                                    << l.pad << ", dilation " << l.dilation);
  const auto extent = [&](int64_t size) { return (size + 2 * l.pad - l.dilation * (l.kernel - 1) - 1) / l.stride + 1; };
  const IntegerConvolution c = {{l.batch, l.in, l.height, l.width},
                                {l.out, l.in, l.kernel, l.kernel},
                                {l.stride, l.stride},
                                {l.pad, l.pad},
                                {l.dilation, l.dilation},
                                {l.batch, l.out, extent(l.height), extent(l.width)}};
  expect_equal(c, kChannelsLast, kChannelsLast, 1, kPriority);
}

TEST(IntegerWindows, PixelsAroundTheTiles) {
  for_each_instruction_set([] {
    for (const int64_t width : {1, 2, 15, 16, 17, 31, 32, 33, 47, 49, 63, 64, 65, 95, 96, 97, 98, 130}) {
      for (const int64_t in : {16, 17, 24, 64, 80, 130}) {
        expect_same({1, in, 20, 1, width, 1});
      }
    }
  });
}

TEST(IntegerWindows, ChannelsAroundTheTiles) {
  for_each_instruction_set([] {
    for (const int64_t out : {1, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65, 100}) {
      for (const int64_t in : {32, 63, 64, 65, 128, 200}) {
        expect_same({1, in, out, 3, 7, 1});
        expect_same({1, in, out, 3, 7, 3, 1, 1});
      }
    }
  });
}

TEST(IntegerWindows, BordersAndStrides) {
  for_each_instruction_set([] {
    for (const int64_t kernel : {1, 2, 3, 5, 7}) {
      for (const int64_t stride : {1, 2, 3, 4}) {
        for (int64_t pad = 0; pad <= kernel; ++pad) {
          expect_same({1, 22, 18, 9, 12, kernel, stride, pad});
          expect_same({2, 22, 18, 14, 11, kernel, stride, pad});
        }
      }
    }
  });
}

TEST(IntegerWindows, ApartTaps) {
  for_each_instruction_set([] {
    for (const int64_t dilation : {2, 3}) {
      for (const int64_t stride : {1, 2}) {
        expect_same({2, 20, 9, 13, 15, 3, stride, dilation, dilation});
      }
    }
  });
}

TEST(IntegerWindows, ImagesSmallerThanTheKernel) {
  for_each_instruction_set([] {
    for (int64_t size = 1; size < 5; ++size) {
      expect_same({3, 40, 20, size, size, 5, 1, 4});
      expect_same({1, 40, 20, size, size, 5, 2, 2});
    }
  });
}

TEST(IntegerWindows, ManyStripsOnThreads) {
  for_each_instruction_set([] {
    expect_same({1, 64, 64, 56, 56, 3, 1, 1});
    expect_same({1, 128, 96, 29, 31, 3, 2, 1});
    expect_same({2, 256, 70, 20, 20, 1});
    expect_same({1, 6, 40, 90, 90, 7, 2, 3});
  });
}

}  // namespace
}  // namespace et::kernels::testing
