// Pointwise operators: activations against the portable kernels and against double precision; broadcasting in every form.

#include <functional>

#include "kernel_harness.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr int64_t kLengths[] = {0, 1, 3, 7, 16, 31, 64, 100, 1000, 70001};

TEST(Unary, MatchesPortable) {
  for (const char* name :
       {"aten::relu.out", "aten::hardsigmoid.out", "aten::hardswish.out", "aten::sigmoid.out", "aten::silu.out",
        "aten::tanh.out", "aten::exp.out", "aten::erf.out", "aten::reciprocal.out", "aten::neg.out", "aten::abs.out"}) {
    for (const int64_t n : kLengths) {
      Call(name).tensor({n}, kRowMajor, -5.0f, 5.0f).out({n}).expect_same(kPriorityOptimized, 1e-6);
    }
  }
  for (const char* name : {"aten::sqrt.out", "aten::rsqrt.out"}) {
    Call(name).tensor({1003}, kRowMajor, 0.01f, 9.0f).out({1003}).expect_same(kPriorityOptimized, 1e-6);
  }
}

TEST(Unary, WithNumbers) {
  Call("aten::clamp.out").tensor({333}).number(-0.5).none().out({333}).expect_same(kPriorityOptimized);
  Call("aten::clamp.out").tensor({333}).none().number(0.25).out({333}).expect_same(kPriorityOptimized);
  Call("aten::hardtanh.out").tensor({333}).integer(-1).integer(1).out({333}).expect_same(kPriorityOptimized);
  Call("aten::leaky_relu.out").tensor({333}).number(0.1).out({333}).expect_same(kPriorityOptimized, 1e-7);
  for (const char* kind : {"none", "tanh"}) {
    Call("aten::gelu.out")
        .tensor({1001}, kRowMajor, -6, 6)
        .text(kind)
        .out({1001})
        .expect_same(kPriorityOptimized, 1e-6);
  }
  for (const double exponent : {2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0}) {
    Call("aten::pow.Tensor_Scalar_out")
        .tensor({99}, kRowMajor, 0.1f, 3)
        .number(exponent)
        .out({99})
        .expect_same(kPriorityOptimized, 1e-6);
  }
  EXPECT_FALSE(Call("aten::pow.Tensor_Scalar_out").tensor({9}).number(1.7).out({9}).fits(kPriorityOptimized));
  Call("aten::add.Scalar_out").tensor({99}).number(1.5).number(2.0).out({99}).expect_same(kPriorityOptimized, 1e-7);
  Call("aten::sub.Scalar_out").tensor({99}).number(1.5).integer(1).out({99}).expect_same(kPriorityOptimized, 1e-7);
  Call("aten::mul.Scalar_out").tensor({99}).number(1.5).out({99}).expect_same(kPriorityOptimized, 1e-7);
  Call("aten::div.Scalar_out").tensor({99}).number(3.0).out({99}).expect_same(kPriorityOptimized, 1e-7);
}

TEST(Unary, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* name : {"aten::relu.out", "aten::sigmoid.out", "aten::tanh.out", "aten::exp.out", "aten::erf.out",
                           "aten::abs.out", "aten::sqrt.out", "aten::hardsigmoid.out"}) {
    Call call(name);
    call.tensor({40})
        .set(0, inf)
        .set(1, -inf)
        .set(2, nan)
        .set(3, -0.0f)
        .set(4, 1e-30f)
        .set(5, 200.0f)
        .set(6, -200.0f)
        .set(39, nan);
    call.out({40}).expect_same(kPriorityOptimized, 1e-6);
  }
}

TEST(Unary, KeepsAnyDimOrder) {
  Call("aten::relu.out")
      .tensor({2, 3, 4, 5}, kChannelsLast)
      .out({2, 3, 4, 5}, kChannelsLast)
      .expect_same(kPriorityOptimized);
  EXPECT_FALSE(Call("aten::relu.out").tensor({2, 3, 4, 5}, kChannelsLast).out({2, 3, 4, 5}).fits(kPriorityOptimized));
}

/// Largest error over a dense range, in units of the last place of the exact result.
double worst_ulp(const char* name, float low, float high, const std::function<double(double)>& exact) {
  constexpr size_t kCount = 200000;
  Call call(name);
  call.tensor({kCount});
  std::vector<float> x(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    x[i] = low + (high - low) * static_cast<float>(i) / kCount;
    call.set(i, x[i]);
  }
  call.out({kCount});
  const std::vector<float> y = call.output(kPriorityOptimized);
  double worst = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double want = exact(static_cast<double>(x[i]));
    const auto rounded = static_cast<float>(std::abs(want));
    const double ulp = static_cast<double>(std::nextafter(rounded, 3e38f)) - static_cast<double>(rounded);
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - want) / std::max(ulp, 1e-44));
  }
  return worst;
}

TEST(Transcendental, AccurateToAFewUlp) {
  EXPECT_LE(worst_ulp("aten::exp.out", -87, 88, [](double x) { return std::exp(x); }), 2);
  EXPECT_LE(worst_ulp("aten::sigmoid.out", -30, 30, [](double x) { return 1 / (1 + std::exp(-x)); }), 4);
  EXPECT_LE(worst_ulp("aten::tanh.out", -9, 9, [](double x) { return std::tanh(x); }), 5);
  EXPECT_LE(worst_ulp("aten::erf.out", -5, 5, [](double x) { return std::erf(x); }), 5);
}

struct Shapes {
  std::vector<int64_t> a, b, out;
};

const Shapes kShapes[] = {
    {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
    {{2, 3, 4, 5}, {}, {2, 3, 4, 5}},
    {{}, {2, 3, 4, 5}, {2, 3, 4, 5}},
    {{2, 3, 4, 5}, {5}, {2, 3, 4, 5}},
    {{2, 3, 4, 5}, {3, 1, 1}, {2, 3, 4, 5}},
    {{2, 3, 1, 5}, {2, 1, 4, 1}, {2, 3, 4, 5}},
    {{4, 1}, {1, 7}, {4, 7}},
    {{}, {}, {}},
    {{0, 3}, {3}, {0, 3}},
    {{90001}, {90001}, {90001}},
    {{90001}, {1}, {90001}},
    {{300, 401}, {401}, {300, 401}},
    {{300, 401}, {300, 1}, {300, 401}},
    {{1, 64, 40, 40}, {1, 64, 1, 1}, {1, 64, 40, 40}},
};

TEST(Binary, BroadcastsLikePortable) {
  for (const char* name : {"aten::mul.out", "aten::div.out", "aten::maximum.out", "aten::minimum.out"}) {
    for (const Shapes& s : kShapes) {
      Call(name).tensor(s.a).tensor(s.b).out(s.out).expect_same(kPriorityOptimized, 1e-7);
    }
  }
  for (const char* name : {"aten::add.out", "aten::sub.out"}) {
    for (const double alpha : {1.0, -0.5}) {
      for (const Shapes& s : kShapes) {
        Call(name).tensor(s.a).tensor(s.b).number(alpha).out(s.out).expect_same(kPriorityOptimized, 1e-6);
      }
    }
  }
}

TEST(Binary, MixesDimOrders) {
  const std::vector<int64_t> s = {2, 8, 5, 6};
  for (const Order a : {kRowMajor, kChannelsLast, kReversed}) {
    for (const Order b : {kRowMajor, kChannelsLast}) {
      for (const Order out : {kRowMajor, kChannelsLast}) {
        Call("aten::mul.out").tensor(s, a).tensor(s, b).out(s, out).expect_same(kPriorityOptimized);
        Call("aten::mul.out").tensor(s, a).tensor({2, 8, 1, 1}, b).out(s, out).expect_same(kPriorityOptimized);
      }
    }
  }
}

TEST(Binary, NanIsTheLargestAndTheSmallest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* name : {"aten::maximum.out", "aten::minimum.out"}) {
    Call(name).tensor({20}).set(3, nan).tensor({20}).set(5, nan).out({20}).expect_same(kPriorityOptimized);
  }
}

TEST(Where, BroadcastsLikePortable) {
  Call("aten::where.self_out")
      .mask({6, 50})
      .tensor({6, 50})
      .tensor({6, 50})
      .out({6, 50})
      .expect_same(kPriorityOptimized);
  Call("aten::where.self_out").mask({50}).tensor({6, 50}).tensor({}).out({6, 50}).expect_same(kPriorityOptimized);
  Call("aten::where.self_out").mask({6, 1}).tensor({}).tensor({6, 50}).out({6, 50}).expect_same(kPriorityOptimized);
  Call("aten::where.self_out")
      .mask({1, 1, 8, 8})
      .tensor({2, 3, 8, 8})
      .tensor({1})
      .out({2, 3, 8, 8})
      .expect_same(kPriorityOptimized);
}

}  // namespace
}  // namespace et::kernels::testing
