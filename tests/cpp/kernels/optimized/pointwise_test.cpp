// Pointwise operators: activations against the portable kernels and against double precision; broadcasting in every
// form.

#include <functional>

#include "kernel_harness.h"
#include "runtime/host/kernel_costs.h"

namespace et::kernels::testing {
namespace {

using runtime::kPriorityOptimized;

constexpr int64_t kLengths[] = {0, 1, 3, 7, 16, 31, 64, 100, 1000, 70001};

TEST(Unary, MatchesPortable) {
  for (const char* name : {"aten::relu.out", "aten::hardsigmoid.out", "aten::hardswish.out", "aten::sigmoid.out",
                           "aten::silu.out", "aten::tanh.out", "aten::exp.out", "aten::erf.out", "aten::reciprocal.out",
                           "aten::neg.out", "aten::abs.out", "aten::mish.out"}) {
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
  for (const float special : {NAN, HUGE_VALF, -HUGE_VALF, -0.0f, 1e-20f, -1e-20f, 60.0f, -150.0f}) {
    Call("aten::mish.out").tensor({40}).set(7, special).out({40}).expect_same(kPriorityOptimized, 1e-6);
    Call("aten::elu.out")
        .tensor({333})
        .set(7, special)
        .number(1.5)
        .number(0.75)
        .integer(1)
        .out({333})
        .expect_same(kPriorityOptimized, 1e-6);
  }
  for (const char* kind : {"none", "tanh"}) {
    Call("aten::gelu.out")
        .tensor({1001}, kRowMajor, -6, 6)
        .text(kind)
        .out({1001})
        .expect_same(kPriorityOptimized, 1e-6);
  }
  for (const double exponent : {2.0, 3.0, 4.0, 0.5, -0.5, -1.0, -2.0, 1.7, -0.3, 60.0}) {
    Call("aten::pow.Tensor_Scalar_out")
        .tensor({99}, kRowMajor, 0.1f, 3)
        .number(exponent)
        .out({99})
        .expect_same(kPriorityOptimized, 1e-6);
  }
  Call("aten::pow.Tensor_Scalar_out").tensor({99}).number(1.7).out({99}).expect_same(kPriorityOptimized, 1e-6);
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
  // Each step of a polynomial rounds its sum and, without fused multiply-add, its product. The bound that running error
  // analysis gives for the quotients of polynomials then grows from 7.5 to 11.3 ulp (tanh) and from 9.6 to 15.5 (erf).
  const double roundings = runtime::this_isa() == ops::TargetIsa::kSse41 ? 1.5 : 1;
  EXPECT_LE(worst_ulp("aten::tanh.out", -9, 9, [](double x) { return std::tanh(x); }), 5 * roundings);
  EXPECT_LE(worst_ulp("aten::erf.out", -5, 5, [](double x) { return std::erf(x); }), 5 * roundings);
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

TEST(Where, ChoosesBitsOfEveryWidth) {
  for (const ScalarType dtype : {ScalarType::Byte, ScalarType::Int, ScalarType::Long}) {
    Call("aten::where.self_out")
        .mask({6, 50})
        .bytes_of(dtype, {6, 50})
        .bytes_of(dtype, {50})
        .out({6, 50}, kRowMajor, dtype)
        .expect_same(kPriorityOptimized);
  }
  Call("aten::masked_fill.Scalar_out")
      .tensor({3, 4, 70})
      .mask({3, 1, 70})
      .number(-std::numeric_limits<double>::infinity())
      .out({3, 4, 70})
      .expect_same(kPriorityOptimized);
}

TEST(Long, ArithmeticWrapsLikePortable) {
  constexpr int64_t kBig = std::numeric_limits<int64_t>::max();
  const auto out = [](Call& call) -> Call& { return call.out({4, 33}, kRowMajor, ScalarType::Long); };
  for (const char* name : {"aten::add.out", "aten::sub.out"}) {
    Call call(name);
    out(call.indices({4, 33}, kBig).indices({33}, kBig).integer(1)).expect_same(kPriorityOptimized);
    EXPECT_FALSE(out(Call(name).indices({4, 33}, 9).indices({33}, 9).integer(3)).fits(kPriorityOptimized));
  }
  for (const char* name : {"aten::mul.out", "aten::maximum.out", "aten::minimum.out"}) {
    Call call(name);
    out(call.indices({4, 33}, kBig).indices({4, 1}, kBig)).expect_same(kPriorityOptimized);
  }
  for (const char* name : {"aten::add.Scalar_out", "aten::sub.Scalar_out"}) {
    Call call(name);
    out(call.indices({4, 33}, kBig).integer(kBig - 3).integer(3)).expect_same(kPriorityOptimized);
  }
  Call call("aten::mul.Scalar_out");
  out(call.indices({4, 33}, kBig).integer(-7)).expect_same(kPriorityOptimized);
  // A floating number makes the result floating, which is the portable kernel's.
  EXPECT_FALSE(out(Call("aten::mul.Scalar_out").indices({4, 33}, 9).number(2.0)).fits(kPriorityOptimized));
}

TEST(Compare, MatchesPortable) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    const std::string tensor = "aten::" + name + ".Tensor_out";
    const std::string scalar = "aten::" + name + ".Scalar_out";
    for (const Shapes& s : kShapes) {
      Call(tensor.c_str())
          .tensor(s.a)
          .tensor(s.b)
          .out(s.out, kRowMajor, ScalarType::Bool)
          .expect_same(kPriorityOptimized);
      Call(tensor.c_str())
          .indices(s.a, 4)
          .indices(s.b, 4)
          .out(s.out, kRowMajor, ScalarType::Bool)
          .expect_same(kPriorityOptimized);
    }
    Call(tensor.c_str())
        .tensor({2, 3, 4, 5}, kChannelsLast)
        .tensor({2, 3, 4, 5})
        .out({2, 3, 4, 5}, kChannelsLast, ScalarType::Bool)
        .expect_same(kPriorityOptimized);
    Call(scalar.c_str())
        .tensor({70})
        .set(3, nan)
        .set(4, 0.5f)
        .number(0.5)
        .out({70}, kRowMajor, ScalarType::Bool)
        .expect_same(kPriorityOptimized);
    Call(scalar.c_str())
        .indices({70}, 5)
        .integer(2)
        .out({70}, kRowMajor, ScalarType::Bool)
        .expect_same(kPriorityOptimized);
    EXPECT_FALSE(Call(scalar.c_str())
                     .indices({70}, 5)
                     .number(2.5)
                     .out({70}, kRowMajor, ScalarType::Bool)
                     .fits(kPriorityOptimized));
  }
}

TEST(Logic, ReadsAnyByteAsBool) {
  for (const char* name : {"aten::logical_and.out", "aten::logical_or.out", "aten::logical_xor.out",
                           "aten::bitwise_and.Tensor_out", "aten::bitwise_or.Tensor_out"}) {
    Call(name)
        .bytes_of(ScalarType::Bool, {5, 77})
        .mask({77})
        .out({5, 77}, kRowMajor, ScalarType::Bool)
        .expect_same(kPriorityOptimized);
  }
  Call("aten::logical_not.out")
      .bytes_of(ScalarType::Bool, {99})
      .out({99}, kRowMajor, ScalarType::Bool)
      .expect_same(kPriorityOptimized);
}

TEST(Cast, MatchesPortable) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ScalarType to : {ScalarType::Long, ScalarType::Int, ScalarType::Bool}) {
    Call call("aten::_to_copy.out");
    call.tensor({203}, kRowMajor, -300.0f, 300.0f).set(0, inf).set(1, -inf).set(2, nan).set(3, 0.0f).set(4, 3e10f);
    call.flag(false).none().out({203}, kRowMajor, to).expect_same(kPriorityOptimized);
  }
  for (const ScalarType from : {ScalarType::Long, ScalarType::Int, ScalarType::Bool}) {
    for (const ScalarType to : {ScalarType::Float, ScalarType::Long, ScalarType::Int, ScalarType::Bool}) {
      if (from != to) {
        Call("dim_order_ops::_to_dim_order_copy.out")
            .bytes_of(from, {2, 5, 7, 3}, kChannelsLast)
            .flag(false)
            .none()
            .out({2, 5, 7, 3}, kRowMajor, to)
            .expect_same(kPriorityOptimized);
      }
    }
  }
}

TEST(Plan, LeavesComputedNumbersToKernelsThatReadThemEachTime) {
  EXPECT_TRUE(Call("aten::mul.Scalar_out").tensor({9}).number(1.5).out({9}).fits(kPriorityOptimized));
  EXPECT_FALSE(Call("aten::mul.Scalar_out").tensor({9}).number(1.5).computed().out({9}).fits(kPriorityOptimized));
}

/// The kernel of an operator with this priority.
const Kernel& kernel_of(const char* name, uint8_t priority) {
  const Kernel* found[8] = {};
  const size_t count = test_registry().find(name, found);
  for (size_t i = 0; i < count; ++i) {
    if (found[i]->priority == priority) {
      return *found[i];
    }
  }
  ADD_FAILURE() << "no such kernel: " << name;
  return *found[0];
}

/// A tensor with room for `most` elements, whose sizes may change.
struct DynamicTensor : OwnedTensor {
  DynamicTensor(std::vector<int64_t> bound, Order order = kRowMajor)
      : OwnedTensor(ScalarType::Float, bound, dim_order(bound.size(), order)) {
    impl = TensorImpl(ScalarType::Float, sizes.size(), sizes.data(), strides.data(), this->order.data(), bytes.data(),
                      bytes.size() - kGuard, runtime::TensorShapeDynamism::kDynamicBound);
  }
};

TEST(Plan, FollowsSizesAndAddressesThatChange) {
  DynamicTensor a({6, 40}), b({6, 40}), out({6, 40});
  EValue values[] = {EValue(Tensor(&a.impl)), EValue(Tensor(&b.impl)), EValue(int64_t{1}), EValue(Tensor(&out.impl))};
  EValue* const pointers[] = {&values[0], &values[1], &values[2], &values[3]};
  const Span<EValue* const> args(pointers, 4);
  ExactAllocator memory;
  runtime::PrepareContext prepare(&memory, nullptr, nullptr);
  prepare.set_constant_query([](const void*, const EValue& value) { return !value.is_tensor(); }, nullptr);
  const Kernel& kernel = kernel_of("aten::add.out", kPriorityOptimized);
  void* state = nullptr;
  ASSERT_EQ(kernel.prepare(prepare, args, &state), Error::Ok);
  runtime::RandomState random;
  runtime::KernelContext context(&memory, &memory, nullptr, &random, nullptr);
  std::vector<float> elsewhere(6 * 40);
  int64_t round = 0;
  const std::vector<int64_t> shapes[][2] = {{{6, 40}, {6, 40}}, {{6, 40}, {1, 40}}, {{3, 7}, {3, 1}},
                                            {{0, 7}, {1, 7}},   {{3, 7}, {3, 1}},   {{1, 1}, {5, 9}}};
  for (const auto& [a_sizes, b_sizes] : shapes) {
    ASSERT_EQ(a.impl.resize(a_sizes), Error::Ok);
    ASSERT_EQ(b.impl.resize(b_sizes), Error::Ok);
    a.impl.set_data(round % 2 == 0 ? static_cast<void*>(elsewhere.data()) : a.bytes.data(), 6 * 40 * sizeof(float));
    auto* const x = static_cast<float*>(a.impl.data());
    auto* const y = static_cast<float*>(b.impl.data());
    for (int64_t i = 0; i < 6 * 40; ++i) {
      x[i] = static_cast<float>(++round);
      y[i] = static_cast<float>(2 * ++round);
    }
    for (int twice = 0; twice < 2; ++twice) {
      ASSERT_EQ(kernel.run(context, args, state), Error::Ok);
      const int64_t rows = std::max(a_sizes[0], b_sizes[0]) * (a_sizes[0] == 0 ? 0 : 1);
      const int64_t columns = std::max(a_sizes[1], b_sizes[1]);
      ASSERT_EQ(out.sizes, (std::vector<int64_t>{rows, columns}));
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          const float want = x[(a_sizes[0] == 1 ? 0 : r) * a_sizes[1] + (a_sizes[1] == 1 ? 0 : c)] +
                             y[(b_sizes[0] == 1 ? 0 : r) * b_sizes[1] + (b_sizes[1] == 1 ? 0 : c)];
          ASSERT_EQ(static_cast<float*>(out.impl.data())[r * columns + c], want);
        }
      }
    }
  }
  // Sizes that do not fit together are an error each time, and do no harm to the plan.
  ASSERT_EQ(a.impl.resize({{3, 7}}), Error::Ok);
  ASSERT_EQ(b.impl.resize({{4, 7}}), Error::Ok);
  EXPECT_EQ(kernel.run(context, args, state), Error::InvalidArgument);
  EXPECT_EQ(kernel.run(context, args, state), Error::InvalidArgument);
  ASSERT_EQ(b.impl.resize({{3, 7}}), Error::Ok);
  EXPECT_EQ(kernel.run(context, args, state), Error::Ok);
}

TEST(Plan, WritesInPlace) {
  OwnedTensor a(ScalarType::Float, {3, 50}, {0, 1}), b(ScalarType::Float, {50}, {0});
  std::vector<float> expected;
  for (int64_t i = 0; i < 150; ++i) {
    reinterpret_cast<float*>(a.bytes.data())[i] = static_cast<float>(i);
    expected.push_back(static_cast<float>(i) * (0.5f + static_cast<float>(i % 50)));
  }
  for (int64_t i = 0; i < 50; ++i) {
    reinterpret_cast<float*>(b.bytes.data())[i] = 0.5f + static_cast<float>(i);
  }
  EValue values[] = {EValue(Tensor(&a.impl)), EValue(Tensor(&b.impl))};
  EValue* const pointers[] = {&values[0], &values[1], &values[0]};
  const Span<EValue* const> args(pointers, 3);
  ExactAllocator memory;
  runtime::PrepareContext prepare(&memory, nullptr, nullptr);
  const Kernel* kernels[8];
  const size_t count = test_registry().find("aten::mul.out", kernels);
  void* state = nullptr;
  size_t place = 0;  // of the first that takes floats
  while (place < count && kernels[place]->prepare(prepare, args, &state) != Error::Ok) {
    ++place;
  }
  ASSERT_LT(place, count);
  const Kernel& kernel = *kernels[place];
  runtime::RandomState random;
  runtime::KernelContext context(&memory, &memory, nullptr, &random, nullptr);
  ASSERT_EQ(kernel.run(context, args, state), Error::Ok);
  EXPECT_EQ(std::memcmp(a.bytes.data(), expected.data(), 150 * sizeof(float)), 0);
}

}  // namespace
}  // namespace et::kernels::testing
