// Kernels of backends (kPriorityLibrary): convolution, matrix products, softmax, pooling, resizing. A build without
// such a backend has none, and the tests say so.

#include "kernel_harness.h"
#include "kernels/optimized/vec/priorities.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityLibrary;

class Library : public ::testing::Test {
 protected:
  void SetUp() override {
    const Kernel* best[1];
    if (test_registry().find("aten::convolution.out", best) < 2) {
      GTEST_SKIP() << "no backend with kernels in this build";
    }
  }
};

struct Convolution {
  std::vector<int64_t> input, weight;
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
  std::vector<int64_t> out;
};

const Convolution kConvolutions[] = {
    {{2, 3, 17, 19}, {8, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, {2, 8, 9, 10}},
    {{1, 16, 9, 9}, {24, 16, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, {1, 24, 9, 9}},
    {{1, 16, 9, 9}, {16, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 16, {1, 16, 9, 9}},
    {{1, 16, 9, 9}, {32, 1, 5, 5}, {2, 2}, {2, 2}, {1, 1}, 16, {1, 32, 5, 5}},
    {{1, 12, 9, 8}, {18, 4, 3, 2}, {1, 2}, {2, 0}, {2, 1}, 3, {1, 18, 9, 4}},
    {{2, 6, 40}, {10, 6, 5}, {2}, {2}, {1}, 1, {2, 10, 20}},
    {{1, 6, 40}, {6, 1, 3}, {1}, {1}, {1}, 6, {1, 6, 40}},
    {{1, 1, 49, 10}, {8, 1, 10, 4}, {2, 2}, {5, 1}, {1, 1}, 1, {1, 8, 25, 5}},
    {{2, 3, 6, 9, 11}, {8, 3, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, {2, 8, 6, 9, 11}},
    {{1, 12, 7, 8, 10}, {96, 4, 3, 2, 3}, {2, 1, 2}, {3, 0, 1}, {2, 1, 1}, 3, {1, 96, 5, 7, 5}},
    {{2, 5, 4, 6, 7}, {7, 5, 1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 1, {2, 7, 4, 3, 4}},
    {{1, 5, 9, 4, 5}, {7, 5, 1, 1, 1}, {3, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, {1, 7, 3, 4, 5}},
    {{1, 16, 11, 60, 31}, {8, 16, 3, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 1, 1}, 1, {1, 8, 11, 60, 31}},
};

void convolve(const Convolution& c, Order input, Order weight, Order out, bool bias, bool clamp) {
  Call call(clamp ? "et::convolution_clamp.out" : "aten::convolution.out");
  call.tensor(c.input, input).constant(c.weight, weight);
  bias ? call.constant({c.out[1]}) : call.none();
  call.list(c.stride)
      .list(c.padding)
      .list(c.dilation)
      .flag(false)
      .list(std::vector<int64_t>(c.stride.size(), 0))
      .integer(c.groups);
  if (clamp) {
    call.number(0.0).number(6.0);
  }
  call.out(c.out, out).expect_same(kPriorityLibrary, 2e-6);
}

TEST_F(Library, ConvolutionInAllDimOrders) {
  for (const Convolution& c : kConvolutions) {
    for (const Order input : {kRowMajor, kChannelsLast}) {
      for (const Order weight : {kRowMajor, kChannelsLast}) {
        for (const Order out : {kRowMajor, kChannelsLast}) {
          convolve(c, input, weight, out, weight == kRowMajor, input == kChannelsLast);
        }
      }
    }
  }
}

TEST_F(Library, TransposedConvolution) {
  for (const Order order : {kRowMajor, kChannelsLast}) {
    for (const Order weight : {kRowMajor, kChannelsLast}) {
      Call("aten::convolution.out")
          .tensor({2, 6, 7, 8}, order)
          .constant({6, 4, 3, 2}, weight)
          .constant({8})
          .list({2, 2})
          .list({1, 0})
          .list({1, 1})
          .flag(true)
          .list({1, 0})
          .integer(2)
          .out({2, 8, 14, 16}, order)
          .expect_same(kPriorityLibrary, 2e-6);
    }
  }
}

TEST_F(Library, ConvolutionStepsAside) {
  const auto call = [](bool constant, double low, double high) {
    Call c("et::convolution_clamp.out");
    c.tensor({1, 3, 8, 8});
    constant ? c.constant({4, 3, 3, 3}) : c.tensor({4, 3, 3, 3});
    c.none().list({1, 1}).list({1, 1}).list({1, 1}).flag(false).list({0, 0}).integer(1).number(low).number(high).out(
        {1, 4, 8, 8});
    return c.fits(kPriorityLibrary);
  };
  EXPECT_TRUE(call(true, 0, 6));
  EXPECT_FALSE(call(false, 0, 6)) << "a computed weight";
  EXPECT_FALSE(call(true, 6, 0)) << "an empty range";
}

TEST_F(Library, Linear) {
  for (const int64_t rows : {1, 2, 33}) {
    for (const Order weight : {kRowMajor, kReversed}) {
      Call("aten::linear.out")
          .tensor({rows, 3, 40})
          .constant({50, 40}, weight)
          .constant({50})
          .out({rows, 3, 50})
          .expect_same(kPriorityLibrary, 2e-6);
      Call("aten::linear.out")
          .tensor({rows, 40})
          .constant({50, 40}, weight)
          .none()
          .out({rows, 50})
          .expect_same(kPriorityLibrary, 2e-6);
      Call("et::linear_clamp.out")
          .tensor({rows, 40})
          .constant({50, 40}, weight)
          .constant({50})
          .number(0)
          .none()
          .out({rows, 50})
          .expect_same(kPriorityLibrary, 2e-6);
      Call("aten::addmm.out")
          .constant({50})
          .tensor({rows, 40})
          .constant({40, 50}, weight)
          .integer(1)
          .integer(1)
          .out({rows, 50})
          .expect_same(kPriorityLibrary, 2e-6);
      Call("et::addmm_clamp.out")
          .constant({50})
          .tensor({rows, 40})
          .constant({40, 50}, weight)
          .integer(1)
          .integer(1)
          .number(-1)
          .number(1)
          .out({rows, 50})
          .expect_same(kPriorityLibrary, 2e-5);  // of sums that reach 20 times the clamped range
      Call("aten::mm.out")
          .tensor({rows, 40})
          .constant({40, 50}, weight)
          .out({rows, 50})
          .expect_same(kPriorityLibrary, 2e-6);
    }
  }
  EXPECT_FALSE(Call("aten::addmm.out")
                   .constant({50})
                   .tensor({3, 40})
                   .constant({40, 50})
                   .number(0.5)
                   .integer(1)
                   .out({3, 50})
                   .fits(kPriorityLibrary));
}

/// Prepares linear with a weight that lies at `weight`, runs it on ones, and compares with sums of rows.
void multiply_ones(runtime::PrepareContext& prepare, const Kernel& kernel, float* weight, int64_t n, int64_t k) {
  OwnedTensor x(ScalarType::Float, {3, k}, {0, 1}), out(ScalarType::Float, {3, n}, {0, 1});
  auto* const ones = reinterpret_cast<float*>(x.bytes.data());
  std::fill_n(ones, 3 * k, 1.0f);
  int64_t sizes[] = {n, k}, strides[2];
  const uint8_t order[] = {0, 1};
  TensorImpl w(ScalarType::Float, 2, sizes, strides, order, weight, static_cast<size_t>(n * k) * sizeof(float));
  EValue values[] = {EValue(Tensor(&x.impl)), EValue(Tensor(&w)), EValue(), EValue(Tensor(&out.impl))};
  EValue* boxed[] = {&values[0], &values[1], &values[2], &values[3]};
  const Span<EValue* const> args(boxed);
  void* state = nullptr;
  ASSERT_EQ(kernel.prepare(prepare, args, &state), Error::Ok);
  ExactAllocator temp;
  runtime::KernelContext context(&temp, nullptr, nullptr, nullptr, nullptr);
  EXPECT_EQ(kernel.run(context, args, state), Error::Ok);
  kernel.destroy(state);
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_FLOAT_EQ(reinterpret_cast<float*>(out.bytes.data())[i],
                    std::accumulate(weight + i* k, weight + i* k + k, 0.0f));
  }
}

TEST_F(Library, OneConstantInTwoShapesIsPackedTwice) {
  const Kernel* found[8];
  const size_t count = test_registry().find("aten::linear.out", found);
  const auto* const kernel =
      *std::find_if(found, found + count, [](const Kernel* k) { return k->priority == kPriorityLibrary; });
  std::vector<float> weight(64 * 96);
  std::iota(weight.begin(), weight.end(), 0.0f);
  ExactAllocator memory;
  runtime::HeapSharedCache cache;
  runtime::PrepareContext prepare(&memory, &cache, nullptr);
  prepare.set_constant_query([](const void*, const EValue&) { return true; }, nullptr);
  multiply_ones(prepare, *kernel, weight.data(), 64, 96);
  multiply_ones(prepare, *kernel, weight.data(), 96, 64);
}

TEST(Linear, BiasesOfAnotherSizeAreRefused) {
  for (const uint8_t priority : {runtime::kPriorityOptimized, runtime::kPriorityPortable}) {
    Call call("aten::linear.out");
    call.tensor({6, 40}).tensor({70, 40}).tensor({37}).out({6, 70});
    EXPECT_EQ(call.error(priority), Error::InvalidArgument);
  }
}

TEST(RowProduct, ReadsLargeWeightsAsTheyLie) {
  constexpr uint8_t kBeforeLibrary = optimized::kPriorityOneRow;
  for (const int64_t k : {128, 300, 1283}) {
    for (const int64_t n : {129, 1000}) {
      Call("aten::linear.out")
          .tensor({1, k})
          .constant({n, k})
          .constant({n})
          .out({1, n})
          .expect_same(kBeforeLibrary, 1e-6);
      Call("aten::linear.out")
          .tensor({1, 1, k})
          .constant({n, k})
          .none()
          .out({1, 1, n})
          .expect_same(kBeforeLibrary, 1e-6);
      Call("et::linear_clamp.out")
          .tensor({k})
          .constant({n, k})
          .constant({n})
          .number(-1.5)
          .none()
          .out({n})
          .expect_same(kBeforeLibrary, 1e-6);
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Call("et::linear_clamp.out")
      .tensor({200})
      .set(7, nan)
      .constant({100, 200})
      .none()
      .integer(0)
      .integer(6)
      .out({100})
      .expect_same(kBeforeLibrary);
  // A weight that is computed, a small one and one that lies the other way round are the library's.
  EXPECT_FALSE(Call("aten::linear.out").tensor({1, 300}).tensor({129, 300}).none().out({1, 129}).fits(kBeforeLibrary));
  EXPECT_FALSE(Call("aten::linear.out").tensor({1, 128}).constant({12, 128}).none().out({1, 12}).fits(kBeforeLibrary));
  EXPECT_FALSE(Call("aten::linear.out")
                   .tensor({1, 300})
                   .constant({129, 300}, kReversed)
                   .none()
                   .out({1, 129})
                   .fits(kBeforeLibrary));
}

TEST_F(Library, Matmul) {
  for (const int64_t m : {1, 7, 40}) {
    Call("aten::bmm.out").tensor({5, m, 30}).tensor({5, 30, 20}).out({5, m, 20}).expect_same(kPriorityLibrary, 2e-6);
    Call("aten::mm.out").tensor({m, 30}).tensor({30, 20}).out({m, 20}).expect_same(kPriorityLibrary, 2e-6);
  }
  // A row or a column reads each number of the matrix once; packing it for the library takes longer.
  const auto chosen = [](int64_t batch, int64_t rows, int64_t columns) {
    return Call("aten::bmm.out")
        .tensor({batch, rows, 64})
        .tensor({batch, 64, columns})
        .out({batch, rows, columns})
        .chosen();
  };
  EXPECT_EQ(chosen(12, 1, 64), optimized::kPriorityOffering);
  EXPECT_EQ(chosen(12, 64, 1), optimized::kPriorityOffering);
  EXPECT_EQ(chosen(12, 64, 64), optimized::kPriorityPixels);
  Call("aten::bmm.out").tensor({2, 3, 0}).tensor({2, 0, 4}).out({2, 3, 4}).expect_same(kPriorityLibrary);
  Call("aten::bmm.out").tensor({0, 3, 2}).tensor({0, 2, 4}).out({0, 3, 4}).expect_same(kPriorityLibrary);
}

TEST_F(Library, Softmax) {
  EXPECT_EQ(Call("aten::_softmax.out").tensor({64, 384}).integer(1).flag(false).out({64, 384}).chosen(),
            optimized::kPriorityOffering);
  Call("aten::_softmax.out")
      .tensor({5, 70, 37})
      .integer(-1)
      .flag(false)
      .out({5, 70, 37})
      .expect_same(kPriorityLibrary, 2e-6);
  Call("aten::_softmax.out")
      .tensor({5, 70, 37, 2}, kChannelsLast)
      .integer(1)
      .flag(false)
      .out({5, 70, 37, 2}, kChannelsLast)
      .expect_same(kPriorityLibrary, 2e-6);
  EXPECT_FALSE(
      Call("aten::_softmax.out").tensor({5, 70, 37}).integer(1).flag(false).out({5, 70, 37}).fits(kPriorityLibrary));
  const float inf = std::numeric_limits<float>::infinity();
  Call("aten::_softmax.out")
      .tensor({2, 20})
      .set(0, -inf)
      .set(9, -inf)
      .integer(1)
      .flag(false)
      .out({2, 20})
      .expect_same(kPriorityLibrary, 2e-6);
}

TEST_F(Library, ResizeBilinear) {
  for (const Order order : {kRowMajor, kChannelsLast}) {
    for (const bool corners : {false, true}) {
      Call("aten::upsample_bilinear2d.out")
          .tensor({2, 5, 7, 9}, order)
          .list({14, 18})
          .flag(corners)
          .none()
          .none()
          .out({2, 5, 14, 18}, order)
          .expect_same(kPriorityLibrary, 3e-6);
      Call("aten::upsample_bilinear2d.vec_out")
          .tensor({2, 5, 7, 9}, order)
          .none()
          .flag(corners)
          .doubles({2.0, 3.0})
          .out({2, 5, 14, 27}, order)
          .expect_same(kPriorityLibrary, 3e-6);
    }
    EXPECT_FALSE(Call("aten::upsample_bilinear2d.vec_out")
                     .tensor({2, 5, 7, 9}, order)
                     .none()
                     .flag(false)
                     .doubles({1.5, 1.5})
                     .out({2, 5, 10, 13}, order)
                     .fits(kPriorityLibrary));
  }
}

}  // namespace
}  // namespace et::kernels::testing
