#include "instruction_sets.h"
#include "kernel_harness.h"
#include "kernels/optimized/conv/planes.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

TEST(Product, Matrices) {
  // Around the sizes of tiles and strips, and beyond a block of the depth.
  for (const int64_t m : {1, 5, 12, 13, 100}) {
    for (const int64_t n : {1, 15, 32, 33, 130}) {
      for (const int64_t k : {1, 7, 300}) {
        Call("aten::mm.out").tensor({m, k}).tensor({k, n}).out({m, n}).expect_same(kPriorityOptimized, 2e-5);
      }
    }
  }
  Call("aten::mm.out")
      .tensor({30, 40}, kReversed)
      .tensor({40, 50}, kReversed)
      .out({30, 50})
      .expect_same(kPriorityOptimized, 2e-5);
  Call("aten::mm.out").tensor({3, 0}).tensor({0, 5}).out({3, 5}).expect_same(kPriorityOptimized);
  Call("aten::mm.out").tensor({0, 4}).tensor({4, 5}).out({0, 5}).expect_same(kPriorityOptimized);
  Call("aten::bmm.out").tensor({3, 20, 30}).tensor({3, 30, 40}).out({3, 20, 40}).expect_same(kPriorityOptimized, 2e-5);
  for (const double beta : {0.0, 1.0, 0.5}) {
    Call("aten::addmm.out")
        .tensor({17})
        .tensor({20, 30})
        .tensor({30, 17})
        .number(beta)
        .number(2.0)
        .out({20, 17})
        .expect_same(kPriorityOptimized, 5e-5);
    Call("aten::baddbmm.out")
        .tensor({1, 17})
        .tensor({2, 20, 30})
        .tensor({2, 30, 17})
        .number(beta)
        .number(1.0)
        .out({2, 20, 17})
        .expect_same(kPriorityOptimized, 5e-5);
  }
  Call("aten::linear.out")
      .tensor({2, 9, 40})
      .tensor({17, 40})
      .tensor({17})
      .out({2, 9, 17})
      .expect_same(kPriorityOptimized, 2e-5);
}

TEST(Product, RowsReadWhereTheyStand) {
  constexpr uint8_t kPriority = optimized::kPriorityPixels;
  for_each_instruction_set([&] {
    for (const int64_t m : {2, 7, 8, 25, 200}) {
      for (const int64_t n : {2, 8, 17, 36, 64, 75}) {
        for (const int64_t k : {1, 36, 130}) {
          Call("aten::mm.out").tensor({m, k}).tensor({k, n}).out({m, n}).expect_same(kPriority, 2e-5);
        }
      }
    }
    // Batches that threads share, and one whose product they share.
    for (const int64_t batch : {0, 1, 3, 16}) {
      Call("aten::bmm.out")
          .tensor({batch, 100, 70})
          .tensor({batch, 70, 90})
          .out({batch, 100, 90})
          .expect_same(kPriority, 2e-5);
    }
    Call("aten::bmm.out").tensor({2, 3, 0}).tensor({2, 0, 5}).out({2, 3, 5}).expect_same(kPriority);
  });
  EXPECT_TRUE(Call("aten::mm.out").tensor({5, 6}).tensor({6, 7}).out({5, 7}).fits(kPriority));
  EXPECT_FALSE(Call("aten::mm.out").tensor({5, 6}).constant({6, 7}).out({5, 7}).fits(kPriority));
  EXPECT_FALSE(Call("aten::mm.out").tensor({5, 6}).tensor({6, 7}, kReversed).out({5, 7}).fits(kPriority));
  EXPECT_FALSE(Call("aten::mm.out").tensor({1, 6}).tensor({6, 7}).out({1, 7}).fits(kPriority));
  EXPECT_FALSE(Call("aten::mm.out").tensor({5, 6}).tensor({6, 1}).out({5, 1}).fits(kPriority));
}

TEST(Product, OneRowOrColumn) {
  for (const int64_t n : {1, 2, 16, 31, 131, 700}) {
    for (const int64_t k : {0, 1, 5, 64, 129, 3000}) {
      for (const Order order : {kRowMajor, kReversed}) {  // the matrix as it lies, or transposed
        Call("aten::mm.out").tensor({1, k}).tensor({k, n}, order).out({1, n}).expect_same(kPriorityOptimized, 2e-5);
        Call("aten::mm.out").tensor({n, k}, order).tensor({k, 1}).out({n, 1}).expect_same(kPriorityOptimized, 2e-5);
        Call("aten::addmm.out")
            .tensor({n})
            .tensor({1, k}, order)
            .tensor({k, n}, order)
            .number(0.5)
            .number(2.0)
            .out({1, n})
            .expect_same(kPriorityOptimized, 5e-5);
      }
      Call("aten::bmm.out").tensor({3, n, k}).tensor({3, k, 1}).out({3, n, 1}).expect_same(kPriorityOptimized, 2e-5);
      Call("aten::bmm.out").tensor({3, 1, k}).tensor({3, k, n}).out({3, 1, n}).expect_same(kPriorityOptimized, 2e-5);
      Call("aten::linear.out").tensor({k}).tensor({n, k}).none().out({n}).expect_same(kPriorityOptimized, 2e-5);
      Call("aten::linear.out")
          .tensor({1, k})
          .tensor({n, k})
          .tensor({n})
          .out({1, n})
          .expect_same(kPriorityOptimized, 5e-5);
    }
  }
  // Matrices of which only a part of each row belongs to the product.
  Call("aten::bmm.out")
      .tensor({1, 3, 40}, kReversed)
      .tensor({1, 40, 1}, kReversed)
      .out({1, 3, 1})
      .expect_same(kPriorityOptimized, 2e-5);
  Call("aten::bmm.out")
      .tensor({4, 3, 40}, kReversed)
      .tensor({4, 40, 1}, kReversed)
      .out({4, 3, 1})
      .expect_same(kPriorityOptimized, 2e-5);
}

struct Conv {
  std::vector<int64_t> input, weight, stride, padding, dilation, out;
  bool transposed;
  std::vector<int64_t> output_padding;
  int64_t groups;
};

TEST(Product, Convolutions) {
  const Conv cases[] = {
      {{2, 6, 50}, {8, 6, 3}, {1}, {1}, {1}, {2, 8, 50}, false, {0}, 1},
      {{1, 6, 51}, {8, 3, 5}, {2}, {2}, {2}, {1, 8, 24}, false, {0}, 2},
      {{2, 5, 13, 17}, {7, 5, 3, 2}, {1, 2}, {1, 0}, {1, 3}, {2, 7, 13, 7}, false, {0, 0}, 1},
      {{5, 13, 17}, {7, 5, 3, 3}, {1}, {1}, {1}, {7, 13, 17}, false, {0}, 1},
      {{1, 4, 7, 8, 9}, {6, 4, 3, 3, 3}, {2}, {1}, {1}, {1, 6, 4, 4, 5}, false, {0}, 1},
      // Rows so narrow that a strip of windows spans many of them.
      {{1, 4, 9, 70, 1}, {8, 4, 3, 3, 1}, {1}, {1, 1, 0}, {1}, {1, 8, 9, 70, 1}, false, {0}, 1},
      {{2, 8, 5, 40, 2}, {8, 4, 3, 2, 3}, {1}, {2, 1, 2}, {2, 1, 1}, {2, 8, 5, 41, 4}, false, {0}, 2},
      {{1, 6, 50, 3}, {8, 3, 3, 3}, {2, 1}, {2}, {2}, {1, 8, 25, 3}, false, {0}, 2},
      {{2, 6, 9, 10}, {6, 4, 3, 2}, {2, 3}, {1, 0}, {1, 2}, {2, 4, 18, 31}, true, {1, 1}, 1},
      {{1, 8, 5, 6, 7}, {8, 3, 2, 2, 2}, {2}, {0}, {1}, {1, 6, 10, 12, 14}, true, {0}, 2},
  };
  for (const Conv& c : cases) {
    for (const auto& [bias, clamp] : {std::pair(false, false), {true, false}, {true, true}}) {
      Call call(clamp ? "et::convolution_clamp.out" : "aten::convolution.out");
      call.tensor(c.input).tensor(c.weight);
      const int64_t channels = c.out[c.out.size() - (c.weight.size() - 2) - 1];
      bias ? call.tensor({channels}) : call.none();
      call.list(c.stride).list(c.padding).list(c.dilation).flag(c.transposed).list(c.output_padding).integer(c.groups);
      if (clamp) {
        call.number(-0.5).none();
      }
      call.out(c.out).expect_same(kPriorityOptimized, 2e-5);
    }
  }
}

Call& describe_lines(Call& call, const std::vector<int64_t>& input, const std::vector<int64_t>& weight, int64_t stride,
                     int64_t padding, int64_t dilation, bool bias, const std::vector<int64_t>& out) {
  call.tensor(input).constant(weight);
  bias ? call.constant({weight[0]}) : call.none();
  return call.list({stride}).list({padding}).list({dilation}).flag(false).list({0}).integer(1).out(out);
}

TEST(Product, ConvolutionsOfPlanes) {
  constexpr uint8_t kPriority = optimized::conv::kPriorityPlanes;
  for_each_instruction_set([&] {
    for (const int64_t channels : {4, 10, 30}) {
      for (const bool bias : {false, true}) {
        Call lines("aten::convolution.out"), deep("aten::convolution.out"), image("aten::convolution.out");
        describe_lines(lines, {2, 1, 300}, {channels, 1, 10}, 5, 0, 1, bias, {2, channels, 59})
            .expect_same(kPriority, 2e-5);
        describe_lines(deep, {1, 40, 50}, {channels, 40, 9}, 2, 3, 2, bias, {1, channels, 20})
            .expect_same(kPriority, 2e-5);
        describe_lines(image, {1, 16, 9, 11}, {channels, 16, 1, 1}, 1, 0, 1, bias, {1, channels, 9, 11})
            .expect_same(kPriority, 2e-5);
      }
    }
  });
  // A library transposes such images before and behind its product.
  Call lines("aten::convolution.out");
  const uint8_t chosen = describe_lines(lines, {1, 1, 16000}, {512, 1, 10}, 5, 0, 1, false, {1, 512, 3199}).chosen();
  EXPECT_EQ(chosen, kPriority);
}

}  // namespace
}  // namespace et::kernels::testing
