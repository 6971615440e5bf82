// Pointwise operators of one tensor: activations, exp, sqrt, powers, and operators with a number as second operand.
//
// One vector functor an operator; `over_span` runs it over a range, and run_unary shares a tensor among the threads.

#include "kernels/optimized/targets.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/unary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/math-inl.h"
#include "kernels/optimized/tables.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_UNARY_ONCE
#define ET_KERNELS_OPTIMIZED_UNARY_ONCE
namespace et::kernels::optimized {
/// Numbers of an operator, in the order of its schema.
struct UnaryParameters {
  float a = 0;
  float b = 0;
};
}  // namespace et::kernels::optimized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

template <class Fn>
HWY_INLINE void over_span(const Fn& fn, const float* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto y0 = fn(d, hn::LoadU(d, x + i));
    const auto y1 = fn(d, hn::LoadU(d, x + i + lanes));
    hn::StoreU(y0, d, y + i);
    hn::StoreU(y1, d, y + i + lanes);
  }
  for (; i < n; i += lanes) {
    const size_t left = HWY_MIN(lanes, n - i);
    hn::StoreN(fn(d, hn::LoadN(d, x + i, left)), d, y + i, left);
  }
}

// NAME(x, y, n, p) applies EXPRESSION, which sees d, x (a vector) and p, to n elements.
#define ET_UNARY(NAME, EXPRESSION)                                       \
  void NAME(const float* from, float* to, size_t n, UnaryParameters p) { \
    static_cast<void>(p);                                                \
    over_span(                                                           \
        [p](auto d, auto x) HWY_ATTR {                                   \
          static_cast<void>(d);                                          \
          static_cast<void>(p);                                          \
          return (EXPRESSION);                                           \
        },                                                               \
        from, to, n);                                                    \
  }

ET_UNARY(Relu, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x))
ET_UNARY(Clamp, limit(d, x, p.a, p.b))
ET_UNARY(HardSigmoid, hn::Mul(limit(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f), hn::Set(d, 1.0f / 6.0f)))
ET_UNARY(HardSwish, hn::Mul(x, hn::Mul(limit(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f), hn::Set(d, 1.0f / 6.0f))))
ET_UNARY(Sigmoid, sigmoid(d, x))
ET_UNARY(Silu, hn::Mul(x, sigmoid(d, x)))
ET_UNARY(Tanh, tanh(d, x))
ET_UNARY(Exp, exp(d, x))
ET_UNARY(Erf, erf(d, x))
ET_UNARY(GeluErf, hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)),
                          hn::Add(hn::Set(d, 1.0f), erf(d, hn::Mul(x, hn::Set(d, 0.70710678118654752f))))))
ET_UNARY(GeluTanh, hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)),
                           hn::Add(hn::Set(d, 1.0f),
                                   tanh(d, hn::Mul(hn::Set(d, 0.79788456080286536f),
                                                   hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x))))))
ET_UNARY(Sqrt, hn::Sqrt(x))
ET_UNARY(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))
ET_UNARY(Reciprocal, hn::Div(hn::Set(d, 1.0f), x))
ET_UNARY(Neg, hn::Neg(x))
ET_UNARY(Abs, hn::Abs(x))
ET_UNARY(Square, hn::Mul(x, x))
ET_UNARY(Cube, hn::Mul(hn::Mul(x, x), x))
ET_UNARY(Fourth, hn::Mul(hn::Mul(x, x), hn::Mul(x, x)))
ET_UNARY(InverseSquare, hn::Div(hn::Set(d, 1.0f), hn::Mul(x, x)))
ET_UNARY(LeakyRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, p.a)), x))
ET_UNARY(AddNumber, hn::Add(x, hn::Set(d, p.a)))
ET_UNARY(MulNumber, hn::Mul(x, hn::Set(d, p.a)))
ET_UNARY(DivNumber, hn::Div(x, hn::Set(d, p.a)))
#undef ET_UNARY

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

#define ET_UNARY_LIST(X)                                                                                          \
  X(Relu)                                                                                                         \
  X(Clamp) X(HardSigmoid) X(HardSwish) X(Sigmoid) X(Silu) X(Tanh) X(Exp) X(Erf) X(GeluErf) X(GeluTanh) X(Sqrt)    \
      X(Rsqrt) X(Reciprocal) X(Neg) X(Abs) X(Square) X(Cube) X(Fourth) X(InverseSquare) X(LeakyRelu) X(AddNumber) \
          X(MulNumber) X(DivNumber)
#define ET_EXPORT(NAME) HWY_EXPORT(NAME);
ET_UNARY_LIST(ET_EXPORT)
#undef ET_EXPORT

namespace {

using SpanFunction = void (*)(const float*, float*, size_t, UnaryParameters);

/// out = function(self), element by element in memory order. `cost`: how many simple instructions an element takes.
Error run_unary(KernelContext& context, const Tensor& self, const Tensor& out, SpanFunction function, size_t cost,
                UnaryParameters parameters = {}) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  const float* const x = self.const_data_ptr<float>();
  float* const y = out.mutable_data_ptr<float>();
  threads::parallel_for(context.pool(), static_cast<size_t>(self.numel()), threads::kGrainElements / cost,
                        [&](size_t begin, size_t end) { function(x + begin, y + begin, end - begin, parameters); });
  return Error::Ok;
}

// Costs relative to a copy, as measured: what decides is when a second thread is worth it.
constexpr size_t kCheap = 1;
constexpr size_t kDivides = 2;
constexpr size_t kTranscendental = 4;

#define ET_UNARY_KERNEL(FUNCTION, NAME, COST)                               \
  Error FUNCTION(KernelContext& context, const Tensor& self, Tensor& out) { \
    return run_unary(context, self, out, HWY_DYNAMIC_POINTER(NAME), COST);  \
  }
ET_UNARY_KERNEL(relu_out, Relu, kCheap)
ET_UNARY_KERNEL(hardsigmoid_out, HardSigmoid, kCheap)
ET_UNARY_KERNEL(hardswish_out, HardSwish, kCheap)
ET_UNARY_KERNEL(sigmoid_out, Sigmoid, kTranscendental)
ET_UNARY_KERNEL(silu_out, Silu, kTranscendental)
ET_UNARY_KERNEL(tanh_out, Tanh, kTranscendental)
ET_UNARY_KERNEL(exp_out, Exp, kTranscendental)
ET_UNARY_KERNEL(erf_out, Erf, kTranscendental)
ET_UNARY_KERNEL(sqrt_out, Sqrt, kDivides)
ET_UNARY_KERNEL(rsqrt_out, Rsqrt, kDivides)
ET_UNARY_KERNEL(reciprocal_out, Reciprocal, kDivides)
ET_UNARY_KERNEL(neg_out, Neg, kCheap)
ET_UNARY_KERNEL(abs_out, Abs, kCheap)
#undef ET_UNARY_KERNEL

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Error clamp_out(KernelContext& context, const Tensor& self, const std::optional<Scalar>& min,
                const std::optional<Scalar>& max, Tensor& out) {
  const UnaryParameters range{min ? min->to<float>() : -kInfinity, max ? max->to<float>() : kInfinity};
  return run_unary(context, self, out, HWY_DYNAMIC_POINTER(Clamp), kCheap, range);
}

Error hardtanh_out(KernelContext& context, const Tensor& self, const Scalar& min_val, const Scalar& max_val,
                   Tensor& out) {
  return run_unary(context, self, out, HWY_DYNAMIC_POINTER(Clamp), kCheap, {min_val.to<float>(), max_val.to<float>()});
}

Error gelu_out(KernelContext& context, const Tensor& self, std::string_view approximate, Tensor& out) {
  const auto function = approximate == "tanh" ? HWY_DYNAMIC_POINTER(GeluTanh) : HWY_DYNAMIC_POINTER(GeluErf);
  return run_unary(context, self, out, function, kTranscendental);
}

Error leaky_relu_out(KernelContext& context, const Tensor& self, const Scalar& slope, Tensor& out) {
  return run_unary(context, self, out, HWY_DYNAMIC_POINTER(LeakyRelu), kCheap, {slope.to<float>()});
}

Error add_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, const Scalar& alpha,
                     Tensor& out) {
  const auto number = static_cast<float>(other.to<double>() * alpha.to<double>());
  return run_unary(context, self, out, HWY_DYNAMIC_POINTER(AddNumber), kCheap, {number});
}

Error sub_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, const Scalar& alpha,
                     Tensor& out) {
  const auto number = static_cast<float>(-other.to<double>() * alpha.to<double>());
  return run_unary(context, self, out, HWY_DYNAMIC_POINTER(AddNumber), kCheap, {number});
}

Error mul_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {
  return run_unary(context, self, out, HWY_DYNAMIC_POINTER(MulNumber), kCheap, {other.to<float>()});
}

Error div_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {
  return run_unary(context, self, out, HWY_DYNAMIC_POINTER(DivNumber), kCheap, {other.to<float>()});
}

/// The exponents that are a few multiplications; others are the portable kernel's.
struct PowerEntry {
  double exponent;
  SpanFunction function;
};

SpanFunction power_function(double exponent) {
  const PowerEntry entries[] = {
      {2.0, HWY_DYNAMIC_POINTER(Square)},         {3.0, HWY_DYNAMIC_POINTER(Cube)},
      {4.0, HWY_DYNAMIC_POINTER(Fourth)},         {0.5, HWY_DYNAMIC_POINTER(Sqrt)},
      {-0.5, HWY_DYNAMIC_POINTER(Rsqrt)},         {-1.0, HWY_DYNAMIC_POINTER(Reciprocal)},
      {-2.0, HWY_DYNAMIC_POINTER(InverseSquare)},
  };
  for (const PowerEntry& entry : entries) {
    if (entry.exponent == exponent) {
      return entry.function;
    }
  }
  return nullptr;
}

bool fits_power(Arguments args) { return fits_unary(args) && power_function(args[1]->number_as_double()) != nullptr; }

Error pow_tensor_scalar_out(KernelContext& context, const Tensor& self, const Scalar& exponent, Tensor& out) {
  return run_unary(context, self, out, power_function(exponent.to<double>()), kDivides);
}

/// A number that is not a number would have to reach the output, which the comparisons of `limit` do not do.
bool fits_clamp(Arguments args) {
  for (const size_t i : {1, 2}) {
    if (!args[i]->is_none() && args[i]->number_as_double() != args[i]->number_as_double()) {
      return false;
    }
  }
  return fits_unary(args);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&abs_out, &fits_unary>("aten::abs.out"),
    make_fitting_kernel<&add_scalar_out, &fits_unary>("aten::add.Scalar_out"),
    make_fitting_kernel<&clamp_out, &fits_clamp>("aten::clamp.out"),
    make_fitting_kernel<&div_scalar_out, &fits_unary>("aten::div.Scalar_out"),
    make_fitting_kernel<&erf_out, &fits_unary>("aten::erf.out"),
    make_fitting_kernel<&exp_out, &fits_unary>("aten::exp.out"),
    make_fitting_kernel<&gelu_out, &fits_unary>("aten::gelu.out"),
    make_fitting_kernel<&hardsigmoid_out, &fits_unary>("aten::hardsigmoid.out"),
    make_fitting_kernel<&hardswish_out, &fits_unary>("aten::hardswish.out"),
    make_fitting_kernel<&hardtanh_out, &fits_clamp>("aten::hardtanh.out"),
    make_fitting_kernel<&leaky_relu_out, &fits_unary>("aten::leaky_relu.out"),
    make_fitting_kernel<&mul_scalar_out, &fits_unary>("aten::mul.Scalar_out"),
    make_fitting_kernel<&neg_out, &fits_unary>("aten::neg.out"),
    make_fitting_kernel<&pow_tensor_scalar_out, &fits_power>("aten::pow.Tensor_Scalar_out"),
    make_fitting_kernel<&reciprocal_out, &fits_unary>("aten::reciprocal.out"),
    make_fitting_kernel<&relu_out, &fits_unary>("aten::relu.out"),
    make_fitting_kernel<&rsqrt_out, &fits_unary>("aten::rsqrt.out"),
    make_fitting_kernel<&sigmoid_out, &fits_unary>("aten::sigmoid.out"),
    make_fitting_kernel<&silu_out, &fits_unary>("aten::silu.out"),
    make_fitting_kernel<&sqrt_out, &fits_unary>("aten::sqrt.out"),
    make_fitting_kernel<&sub_scalar_out, &fits_unary>("aten::sub.Scalar_out"),
    make_fitting_kernel<&tanh_out, &fits_unary>("aten::tanh.out"),
};

}  // namespace

Span<const Kernel> unary_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
