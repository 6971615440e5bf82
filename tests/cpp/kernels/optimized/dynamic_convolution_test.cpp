// et::dynamic_convolution beside the plain kernel, bit for bit on every instruction set: sums are integers, and what
// they become is one formula. Weights are such as pairs, chains, quads and patches are made of.

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/vec/priorities.h"

namespace et::kernels::testing {
namespace {

struct DynamicConvolution {
  int64_t batch, in, out, groups;  // channels of a group
  int64_t size[2], kernel[2], stride[2], padding[2], dilation[2];

  int64_t extent(int d) const { return (size[d] + 2 * padding[d] - (kernel[d] - 1) * dilation[d] - 1) / stride[d] + 1; }
};

/// How the input becomes integers, and what the results are clamped to.
struct Range {
  bool is_symmetric;
  int64_t low, high;
  bool is_clamped;
};
constexpr Range kRanges[] = {{false, -128, 127, false}, {true, -127, 127, true}, {false, 0, 255, true}};

/// Weights are bytes divided by `divisor`. Numbers of the input lie between `low` and `high`.
Call call_of(const DynamicConvolution& c, const Range& range, int divisor, float low = -2, float high = 3) {
  const int64_t channels = c.out * c.groups;
  Call call("et::dynamic_convolution.out");
  call.tensor({c.batch, c.in * c.groups, c.size[0], c.size[1]}, kChannelsLast, low, high);
  call.bytes_of(ScalarType::Char, {channels, c.in, c.kernel[0], c.kernel[1]});
  call.change_bytes([divisor](int byte) { return byte / divisor; }).as_constant();
  call.constant({range.is_symmetric ? 1 : channels}, kRowMajor, 0.001f, 0.01f);
  channels % 2 == 0 ? call.constant({channels}) : call.none();
  call.list({c.stride[0], c.stride[1]}).list({c.padding[0], c.padding[1]}).list({c.dilation[0], c.dilation[1]});
  call.integer(c.groups).flag(range.is_symmetric).integer(range.low).integer(range.high).number(1e-6);
  range.is_clamped ? call.number(0).number(1.5) : call.none().none();
  call.out({c.batch, channels, c.extent(0), c.extent(1)}, kChannelsLast);
  return call;
}

void expect_same(const DynamicConvolution& c, const Range& range, int divisor) {
  SCOPED_TRACE(::testing::Message() << c.batch << " x " << c.in << " x " << c.size[0] << " x " << c.size[1] << " to "
                                    << c.out << " in " << c.groups << " groups, " << c.kernel[0] << " x " << c.kernel[1]
                                    << " every " << c.stride[0] << ", " << c.stride[1] << ", from " << range.low);
  call_of(c, range, divisor).expect_same(optimized::kPriorityWindows);
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t operator()(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }

 private:
  std::mt19937 random_;
};

TEST(DynamicConvolution, AnyShape) {
  for_each_instruction_set([] {
    Draw draw(7);
    for (int i = 0; i < 120; ++i) {
      DynamicConvolution c{draw(1, 3), draw(1, 40), 0, draw(0, 3) == 0 ? draw(2, 4) : 1, {}, {}, {}, {}, {}};
      c.out = draw(c.groups == 1 ? 1 : 4, 40);
      for (int d = 0; d < 2; ++d) {
        c.kernel[d] = draw(1, 5), c.stride[d] = draw(1, 3), c.padding[d] = draw(0, 3), c.dilation[d] = draw(1, 2);
        c.size[d] = std::max<int64_t>(draw(1, 14), (c.kernel[d] - 1) * c.dilation[d] + 1 - 2 * c.padding[d]);
      }
      expect_same(c, kRanges[i % 3], i % 2 == 0 ? 1 : 8);
    }
  });
}

TEST(DynamicConvolution, PointsAndSquares) {
  for_each_instruction_set([] {
    Draw draw(8);
    for (int i = 0; i < 40; ++i) {
      const int64_t kernel = i % 2 == 0 ? 1 : 3, padding = kernel / 2, groups = i % 8 == 7 ? 2 : 1;
      expect_same({draw(1, 2),
                   draw(1, 90),
                   draw(4, 90),
                   groups,
                   {draw(3, 12), draw(3, 12)},
                   {kernel, kernel},
                   {1, 1},
                   {padding, padding},
                   {1, 1}},
                  kRanges[i % 3], i % 4 < 2 ? 1 : 8);
    }
    for (const int divisor : {1, 16}) {  // several blocks of rows; rows of 1,024 bytes; one window
      expect_same({1, 130, 70, 1, {40, 41}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, kRanges[0], divisor);
      expect_same({1, 1024, 40, 1, {7, 7}, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, kRanges[0], divisor);
      expect_same({1, 1024, 40, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, kRanges[1], divisor);
    }
  });
}

// All of the image is one number, on either side of zero: the zero point stands at an end.
TEST(DynamicConvolution, OneSidedInputs) {
  const DynamicConvolution c{1, 20, 24, 1, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  for_each_instruction_set([&] {
    for (const Range& range : kRanges) {
      call_of(c, range, 1, 0.5f, 0.5f).expect_same(optimized::kPriorityWindows);
      call_of(c, range, 1, -0.5f, -0.25f).expect_same(optimized::kPriorityWindows);
      call_of(c, range, 1, 0, 0).expect_same(optimized::kPriorityWindows);
    }
  });
}

TEST(DynamicConvolution, RefusesWhatIsNoNumber) {
  const DynamicConvolution c{1, 3, 4, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  Call call = call_of(c, kRanges[0], 1, 0, std::numeric_limits<float>::infinity());
  EXPECT_EQ(call.error(optimized::kPriorityWindows), Error::InvalidArgument);
  EXPECT_EQ(call.error(runtime::kPriorityPortable), Error::InvalidArgument);
}

}  // namespace
}  // namespace et::kernels::testing
