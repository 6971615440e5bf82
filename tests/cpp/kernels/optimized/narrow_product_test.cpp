// Products and convolutions of BFloat16: rows, columns and depths around the blocks of vectors and of tiles, layouts,
// borders.

#include "instruction_sets.h"
#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

/// Sums of another order round to a neighbour, which is 2^-8 of a number away.
constexpr double kStep = 1.0 / 128;

TEST(NarrowProduct, MatricesAroundTheTiles) {
  for_each_instruction_set([] {
    for (const int64_t rows : {2, 15, 16, 17, 31, 32, 33, 70}) {
      for (const int64_t columns : {2, 15, 16, 31, 32, 33, 65}) {
        for (const int64_t depth : {1, 2, 31, 32, 33, 65}) {
          SCOPED_TRACE(::testing::Message() << rows << " x " << depth << " x " << columns);
          Call("aten::mm.out")
              .narrow({rows, depth})
              .narrow({depth, columns})
              .out({rows, columns}, kRowMajor, ScalarType::BFloat16)
              .expect_same(kPriorityOptimized, kStep);
        }
      }
    }
  });
}

TEST(NarrowProduct, LayoutsAndDepthsBeyondABlock) {
  for_each_instruction_set([] {
    for (const Order left : {kRowMajor, kReversed}) {
      for (const Order right : {kRowMajor, kReversed}) {
        Call("aten::mm.out")
            .narrow({45, 1100}, left)
            .narrow({1100, 70}, right)
            .out({45, 70}, kRowMajor, ScalarType::BFloat16)
            .expect_same(kPriorityOptimized, kStep);
      }
    }
    Call("aten::bmm.out")
        .narrow({3, 20, 37})
        .narrow({3, 37, 40})
        .out({3, 20, 40}, kRowMajor, ScalarType::BFloat16)
        .expect_same(kPriorityOptimized, kStep);
    Call("aten::linear.out")
        .narrow({2, 9, 41})
        .narrow({17, 41})
        .narrow({17})
        .out({2, 9, 17}, kRowMajor, ScalarType::BFloat16)
        .expect_same(kPriorityOptimized, kStep);
  });
}

struct Layer {
  int64_t batch, in, out, height, width, kernel, stride = 1, pad = 0, dilation = 1, groups = 1;
};

void expect_same(const Layer& l) {
  SCOPED_TRACE(::testing::Message() << l.batch << " x " << l.in << " -> " << l.out << ", " << l.height << " x "
                                    << l.width << ", kernel " << l.kernel << ", stride " << l.stride << ", padding "
                                    << l.pad << ", dilation " << l.dilation << ", groups " << l.groups);
  const auto extent = [&](int64_t size) { return (size + 2 * l.pad - l.dilation * (l.kernel - 1) - 1) / l.stride + 1; };
  Call("aten::convolution.out")
      .narrow({l.batch, l.in, l.height, l.width})
      .narrow({l.out, l.in / l.groups, l.kernel, l.kernel})
      .narrow({l.out})
      .list({l.stride, l.stride})
      .list({l.pad, l.pad})
      .list({l.dilation, l.dilation})
      .flag(false)
      .list({0, 0})
      .integer(l.groups)
      .out({l.batch, l.out, extent(l.height), extent(l.width)}, kRowMajor, ScalarType::BFloat16)
      .expect_same(kPriorityOptimized, kStep);
}

TEST(NarrowProduct, Convolutions) {
  for_each_instruction_set([] {
    for (const int64_t in : {1, 2, 7, 8, 9, 32, 33, 34, 65}) {  // pairs of channels, and tiles of 16 pairs
      for (const int64_t out : {1, 3, 4, 15, 16, 17, 33}) {
        expect_same({1, in, out, 5, 9, 3, 1, 1});
      }
    }
    for (const int64_t kernel : {1, 2, 3, 5}) {
      for (const int64_t dilation : {1, 2}) {
        for (const int64_t pad : {0, 1, 3}) {
          expect_same({2, 18, 20, 11, 40, kernel, 1, pad, dilation});
          expect_same({1, 18, 20, 11, 13, kernel, 2, pad, dilation});
        }
      }
    }
    expect_same({2, 40, 24, 9, 9, 3, 1, 1, 1, 2});  // groups
  });
}

}  // namespace
}  // namespace et::kernels::testing
