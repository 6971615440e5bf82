// Pointwise operators of one tensor of floats or doubles: activations, exp, sqrt, powers. One vector functor an
// operator.
//
// Doubles outside of the range of a function (infinities, NaN) are computed by the standard library.

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/pointwise/functions-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_activation.h"
#include "ops/signatures/portable/op_binary.h"
#include "ops/signatures/portable/op_clamp.h"
#include "ops/signatures/portable/op_unary.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

ET_FUNCTION(Relu, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x))
ET_FUNCTION(Clamp, between(d, x, a, b))
ET_FUNCTION(LeakyRelu, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, a)), x))
ET_FUNCTION_OF_FLOATS(HardShrink, hn::IfThenZeroElse(hn::And(hn::Ge(x, hn::Set(d, -a)), hn::Le(x, hn::Set(d, a))), x))
ET_FUNCTION_OF_FLOATS(SoftShrink, hn::IfThenElse(hn::Gt(x, hn::Set(d, a)), hn::Sub(x, hn::Set(d, a)),
                                                 hn::IfThenElse(hn::Lt(x, hn::Set(d, -a)), hn::Add(x, hn::Set(d, a)),
                                                                hn::Mul(x, hn::Zero(d)))))
template <class D, class V = hn::Vec<D>>
HWY_INLINE V hard_sigmoid(D d, V x) {
  return hn::Mul(between(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f), hn::Set(d, 1.0f / 6.0f));
}
ET_FUNCTION_OF_FLOATS(HardSigmoid, hard_sigmoid(d, x))
ET_FUNCTION_OF_FLOATS(HardSwish, hn::Mul(x, hard_sigmoid(d, x)))
ET_FUNCTION_OF_FLOATS(Swish, hn::Mul(x, sigmoid(d, hn::Mul(x, hn::Set(d, a)))))

template <class T>
HWY_INLINE T sigmoid_of(T x) {
  return 1 / (1 + std::exp(-x));
}
ET_GUARDED(Exp, checked_doubles, exp(d, x), std::exp(x), -kExponent<T>, kExponent<T>)
ET_GUARDED(Sigmoid, checked_doubles, sigmoid(d, x), sigmoid_of(x), -kExponent<T>, kExponent<T>)
ET_GUARDED(Silu, checked_doubles, hn::Mul(x, sigmoid(d, x)), x* sigmoid_of(x), -kExponent<T>, kExponent<T>)
ET_GUARDED(Tanh, checked_doubles, tanh(d, x), std::tanh(x), -kLargest<T>, kLargest<T>)
ET_GUARDED(GeluErf, checked_doubles, gelu(d, x), 0.5 * x * (1.0 + std::erf(x * kHalfRoot)), T{-36}, T{36})

constexpr double kGeluScale = 0.79788456080286535588, kGeluCube = 0.044715;
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE V gelu_tanh(D d, V x) {
  const V inner = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, T(kGeluCube)), x);
  return hn::Mul(hn::Mul(x, hn::Set(d, T(0.5))),
                 hn::Add(hn::Set(d, T{1}), tanh(d, hn::Mul(hn::Set(d, T(kGeluScale)), inner))));
}
ET_GUARDED(GeluTanh, checked_doubles, gelu_tanh(d, x),
           0.5 * x * (1.0 + std::tanh(kGeluScale * (x + kGeluCube * x * x * x))), by_type<T>(0, -1e100),
           by_type<T>(0, 1e100))

/// x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2), which is 1 to a type's precision from x = 20 (40) on.
template <class D, class V, class T = hn::TFromD<D>>
HWY_INLINE V mish(D d, V x) {
  const V two = hn::Set(d, T{2});
  const V e = exp(d, between(d, x, by_type<T>(-110, -746), by_type<T>(20, 40)));
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}
ET_GUARDED(Mish, checked_doubles, mish(d, x), x* std::tanh(std::log1p(std::exp(x))), -kExponent<T>, kLargest<T>)

/// a (e^x - 1) for x <= 0, else b x.
template <class D, class V, class T>
HWY_INLINE V elu(D d, V x, T a, T b) {
  const V negative = between(d, x, by_type<T>(-100, -700), T{0});
  const V below = hn::Mul(hn::Set(d, a), near_zero(d, negative, hn::Expm1(d, negative)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Mul(x, hn::Set(d, b)));
}
ET_FUNCTION(Elu, elu(d, x, a, b))

/// x b > a ? x : log(1 + e^(x b)) / b.
template <class D, class V, class T>
HWY_INLINE V softplus(D d, V x, T threshold, T beta) {
  const V b = hn::Set(d, beta);
  const V y = hn::Mul(x, b);
  const auto is_linear = hn::Or(hn::Gt(y, hn::Set(d, threshold)), hn::IsNaN(x));
  const V low = between(d, y, by_type<T>(-105, -746), by_type<T>(88, 700));
  return hn::IfThenElse(is_linear, x, hn::Div(hn::Log1p(d, exp(d, low)), b));
}
ET_FUNCTION(Softplus, softplus(d, x, a, b))

ET_FUNCTION(Sqrt, hn::Sqrt(x))
ET_FUNCTION(Rsqrt, hn::Div(hn::Set(d, T{1}), hn::Sqrt(x)))
ET_FUNCTION(Reciprocal, hn::Div(hn::Set(d, T{1}), x))
ET_FUNCTION(Same, x)
ET_FUNCTION(Square, hn::Mul(x, x))
ET_FUNCTION(Cube, hn::Mul(hn::Mul(x, x), x))
ET_FUNCTION_OF_FLOATS(Fourth, hn::Mul(hn::Mul(x, x), hn::Mul(x, x)))
ET_FUNCTION_OF_FLOATS(InverseSquare, hn::Div(hn::Set(d, 1.0f), hn::Mul(x, x)))

/// x^b for positive x, in doubles: the error of y log x, which e^… multiplies, stays far below a float's last bit.
template <class D, class V>
HWY_INLINE V power(D d, V all, float exponent) {
  return checked(
      d, all, kSmallest<float>, kLargest<float>,
      [d, exponent](V x) HWY_ATTR {
        return in_doubles(
            d,
            [exponent](auto dd, auto v) HWY_ATTR {
              const auto bound = hn::Set(dd, 700.0);
              const auto product = hn::Mul(hn::Set(dd, static_cast<double>(exponent)), hn::Log(dd, v));
              return hn::Exp(dd, hn::Max(hn::Min(product, bound), hn::Neg(bound)));
            },
            x);
      },
      [exponent](float x) HWY_ATTR { return std::pow(x, exponent); });
}
ET_FUNCTION_OF_FLOATS(Power, power(d, x, b))

// The sign is the first bit of floats of 16 bits, too.
ET_FUNCTOR(Abs, hn::Abs(x))
ET_FUNCTOR(Neg, hn::Neg(x))
void AbsOfSmall(const PointwiseBlock& block) {
  map_elements<uint16_t, uint16_t>([](uint16_t x) HWY_ATTR { return static_cast<uint16_t>(x & 0x7FFFU); }, block);
}
void NegOfSmall(const PointwiseBlock& block) {
  map_elements<uint16_t, uint16_t>([](uint16_t x) HWY_ATTR { return static_cast<uint16_t>(x ^ 0x8000U); }, block);
}
NumberLoops AbsLoops() { return {&Map<float, Abs>, &Map<double, Abs>, &AbsOfSmall}; }
NumberLoops NegLoops() { return {&Map<float, Neg>, &Map<double, Neg>, &NegOfSmall}; }

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

// clang-format off
#define ET_ROWS(X)                                       \
  X(Abs, abs_out, kKeepsType, kCheap)                    \
  X(Exp, exp_out, kPromotes, kTranscendental)            \
  X(HardSigmoid, hardsigmoid_out, kKeepsType, kCheap)    \
  X(HardSwish, hardswish_out, kKeepsType, kCheap)        \
  X(Mish, mish_out, kKeepsType, kTranscendental)         \
  X(Neg, neg_out, kKeepsType, kCheap)                    \
  X(Reciprocal, reciprocal_out, kPromotes, kDivides)     \
  X(Relu, relu_out, kKeepsType, kCheap)                  \
  X(Rsqrt, rsqrt_out, kPromotes, kDivides)               \
  X(Sigmoid, sigmoid_out, kPromotes, kTranscendental)    \
  X(Silu, silu_out, kKeepsType, kTranscendental)         \
  X(Sqrt, sqrt_out, kPromotes, kDivides)                 \
  X(Square, square_out, kKeepsType, kCheap)              \
  X(Tanh, tanh_out, kPromotes, kTranscendental)
// Those with numbers.
#define ET_OTHERS(X) \
  X(Clamp) X(Cube) X(Elu) X(Fourth) X(GeluErf) \
  X(GeluTanh) X(HardShrink) X(InverseSquare) X(LeakyRelu) X(Power) X(Same) \
  X(SoftShrink) X(Softplus) X(Swish)
// clang-format on
ET_ROWS(ET_EXPORT_FUNCTION)
ET_OTHERS(ET_EXPORT_FUNCTION)
#undef ET_OTHERS

namespace {

ScalarType type_of(Arguments args) { return args[0]->to_tensor().scalar_type(); }
/// Argument `i`, a number, in the type that self is computed in.
double number_at(Arguments args, size_t i) {
  return type_of(args) == ScalarType::Double ? args[i]->number_as_double() : number_as_float(*args[i]);
}

// clamp(self, Scalar? min, Scalar? max, out) and hardtanh(self, Scalar min_val, Scalar max_val, out)
Error choose_clamp(Arguments args, PointwiseOperation* operation) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  operation->a = args[1]->is_none() ? -kInfinity : number_at(args, 1);
  operation->b = args[2]->is_none() ? kInfinity : number_at(args, 2);
  if (std::isnan(operation->a) || std::isnan(operation->b)) {
    return Error::NotSupported;  // would have to reach the output, which the comparisons of `between` do not do
  }
  return choose_function(args, loops_of_Clamp(), kKeepsType, kCheap, operation);
}

// elu(self, Scalar alpha, Scalar scale, Scalar input_scale, out)
Error choose_elu(Arguments args, PointwiseOperation* operation) {
  if (number_at(args, 3) != 1.0) {
    return Error::NotSupported;
  }
  operation->b = number_at(args, 2);
  operation->a = number_at(args, 1) * operation->b;  // of floats exact, and rounded to one by the loop
  return choose_function(args, loops_of_Elu(), kKeepsType, kTranscendental, operation);
}

// gelu(self, str approximate, out)
Error choose_gelu(Arguments args, PointwiseOperation* operation) {
  const bool is_tanh = args[1]->to_string_view() == "tanh";
  const NumberLoops loops = is_tanh ? loops_of_GeluTanh() : loops_of_GeluErf();
  return choose_function(args, loops, kKeepsType, kTranscendental, operation);
}

// softplus(self, Scalar beta, Scalar threshold, out)
Error choose_softplus(Arguments args, PointwiseOperation* operation) {
  operation->a = number_at(args, 2);
  operation->b = number_at(args, 1);
  if (!(operation->a <= (type_of(args) == ScalarType::Double ? 700 : 88))) {  // beyond, eager's exponential overflows
    return Error::NotSupported;
  }
  return choose_function(args, loops_of_Softplus(), kKeepsType, 2 * kTranscendental, operation);
}

// fn(self, Scalar number, out)
template <NumberLoops (*Loops)(), size_t kCost = kCheap>
Error choose_with_number(Arguments args, PointwiseOperation* operation) {
  operation->a = number_at(args, 1);
  return choose_function(args, Loops(), kKeepsType, kCost, operation);
}

// hardshrink(self, Scalar lambd, out): the number is an element of the tensor's type.
Error choose_hardshrink(Arguments args, PointwiseOperation* operation) {
  if (!is_up_to_float(type_of(args))) {
    return Error::NotSupported;
  }
  operation->a = number_as_element(type_of(args), args[1]->number_as_double());
  return choose_function(args, loops_of_HardShrink(), kKeepsType, kCheap, operation);
}

// pow(self, Scalar exponent, out): exponents that are a few multiplications, else the general power.
Error choose_pow(Arguments args, PointwiseOperation* operation) {
  const struct {
    double exponent;
    NumberLoops loops;
  } entries[] = {
      {1.0, loops_of_Same()}, {2.0, loops_of_Square()}, {3.0, loops_of_Cube()},        {4.0, loops_of_Fourth()},
      {0.5, loops_of_Sqrt()}, {-0.5, loops_of_Rsqrt()}, {-1.0, loops_of_Reciprocal()}, {-2.0, loops_of_InverseSquare()},
  };
  const double exponent = args[1]->number_as_double();
  for (const auto& entry : entries) {
    if (entry.exponent == exponent) {
      return choose_function(args, entry.loops, kKeepsType, kDivides, operation);
    }
  }
  operation->b = is_small_float(type_of(args)) ? number_as_element(type_of(args), exponent) : number_at(args, 1);
  return choose_function(args, loops_of_Power(), kKeepsType, 4 * kTranscendental, operation);
}

constexpr Kernel kKernels[] = {
    ET_ROWS(ET_FUNCTION_KERNEL) make_pointwise_kernel<&choose_clamp>(signature::clamp_out),
    make_pointwise_kernel<&choose_elu>(signature::elu_out),
    make_pointwise_kernel<&choose_gelu>(signature::gelu_out),
    make_pointwise_kernel<&choose_hardshrink>(signature::hardshrink_out),
    make_pointwise_kernel<&choose_clamp>(signature::hardtanh_out),
    make_pointwise_kernel<&choose_with_number<&loops_of_LeakyRelu>>(signature::leaky_relu_out),
    make_pointwise_kernel<&choose_pow>(signature::pow_tensor_scalar_out),
    make_pointwise_kernel<&choose_softplus>(signature::softplus_out),
    make_pointwise_kernel<&choose_with_number<&loops_of_SoftShrink>>(signature::softshrink_out),
    make_pointwise_kernel<&choose_with_number<&loops_of_Swish, kTranscendental>>(signature::swish_out),
};
#undef ET_ROWS

}  // namespace

ET_KERNEL_TABLE(unary, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
