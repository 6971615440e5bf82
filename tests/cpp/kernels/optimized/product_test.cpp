#include "kernel_harness.h"

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

}  // namespace
}  // namespace et::kernels::testing
