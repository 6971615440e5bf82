// Pointwise functions of one tensor, computed in float, beyond the activations: logarithms, trigonometric and
// hyperbolic functions and their inverses, general powers, and the rounding functions.
//
// The vector functions are Highway's (hwy/contrib/math), at most 4 ulp from the exact value in the range that each
// states. An element outside of it (0, infinities, NaN, a large angle) is computed by the standard library instead, so
// special values are those of the portable kernels.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>
#include <limits>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/domains-inl.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_activation.h"
#include "ops/signatures/portable/op_unary.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// NAME(block) applies VECTOR, which sees d and x, to elements in [LOW, HIGH], SCALAR, which sees x, to others.
#define ET_CHECKED(NAME, LOW, HIGH, VECTOR, SCALAR)                         \
  void NAME(const PointwiseBlock& block) {                                  \
    map_floats(                                                             \
        [](auto d, auto all) HWY_ATTR {                                     \
          return checked(                                                   \
              d, all, LOW, HIGH, [d](auto x) HWY_ATTR { return (VECTOR); }, \
              [](float x) HWY_ATTR { return static_cast<float>(SCALAR); }); \
        },                                                                  \
        block);                                                             \
  }

// The same for functions with a domain.
#define ET_BOUNDED(NAME, DOMAIN_OF, LOW, HIGH, VECTOR, SCALAR)                         \
  void NAME(const PointwiseBlock& block) {                                             \
    map_floats(                                                                        \
        [](auto d, auto all) HWY_ATTR {                                                \
          return bounded(                                                              \
              d, all, DOMAIN_OF, LOW, HIGH, [d](auto x) HWY_ATTR { return (VECTOR); }, \
              [](float x) HWY_ATTR { return static_cast<float>(SCALAR); });            \
        },                                                                             \
        block);                                                                        \
  }

/// y, but x where it is a zero or subnormal: what functions give that are x near 0, of which Highway's lose the sign.
template <class D, class V>
HWY_INLINE V near_zero(D d, V x, V y) {
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1.17549435e-38f)), x, y);
}

constexpr float kLargest = 3.402823466e38f;
constexpr float kSmallest = 1.17549435e-38f;  // that is not subnormal
constexpr float kAngle = 30000.0f;            // Highway reduces angles up to 39000 well
constexpr float kExponent = 87.0f;            // e^x and e^-x are finite and normal

ET_BOUNDED(Acos, kArcCosine<float>, -1.0f, 1.0f, hn::Acos(d, x), std::acos(x))
ET_BOUNDED(Acosh, kFromOne<float>, 1.0f, kLargest, hn::Acosh(d, x), std::acosh(x))
ET_BOUNDED(Asin, kArcSine<float>, -1.0f, 1.0f, hn::Asin(d, x), std::asin(x))
ET_CHECKED(Asinh, -1e18f, 1e18f, hn::Asinh(d, x), std::asinh(x))
ET_CHECKED(Atan, -kLargest, kLargest, hn::Atan(d, x), std::atan(x))
ET_BOUNDED(Atanh, kUnit<float>, -0.999999f, 0.999999f, hn::Atanh(d, x), std::atanh(x))
ET_CHECKED(Cos, -kAngle, kAngle, hn::Cos(d, x), std::cos(x))
ET_CHECKED(Cosh, -kExponent, kExponent, hn::MulAdd(exp(d, x), hn::Set(d, 0.5f), hn::Div(hn::Set(d, 0.5f), exp(d, x))),
           std::cosh(x))
ET_CHECKED(Exp2, -125.0f, 127.0f, hn::Exp2(d, x), std::exp2(x))
ET_CHECKED(Expm1, -kExponent, kExponent, near_zero(d, x, hn::Expm1(d, x)), std::expm1(x))
ET_BOUNDED(Log, kLogarithm<float>, kSmallest, kLargest, hn::Log(d, x), std::log(x))
ET_BOUNDED(Log10, kLogarithm<float>, kSmallest, kLargest, hn::Log10(d, x), std::log10(x))
ET_BOUNDED(Log1p, kLogarithm1<float>, -0.999f, kLargest, hn::Log1p(d, x), std::log1p(x))
ET_BOUNDED(Log2, kLogarithm<float>, kSmallest, kLargest, hn::Log2(d, x), std::log2(x))
ET_CHECKED(Sin, -kAngle, kAngle, near_zero(d, x, hn::Sin(d, x)), std::sin(x))
ET_CHECKED(Sinh, -kExponent, kExponent, hn::Sinh(d, x), std::sinh(x))
ET_CHECKED(Tan, -kAngle, kAngle, near_zero(d, x, hn::Div(hn::Sin(d, x), hn::Cos(d, x))), std::tan(x))

/// erfinv(x) for |x| < 1: a polynomial in w = -log(1 - x²) around 2.5 or, near the ends, in sqrt(w) around 3.
/// Source: M. Giles, "Approximating the erfinv function", 2010 (single precision).
template <class D, class V>
HWY_INLINE V inverse_erf(D d, V x) {
  constexpr float kMiddle[] = {1.50140941f,      0.246640727f,    -0.00417768164f, -0.00125372503f, 0.00021858087f,
                               -4.39150654e-06f, -3.5233877e-06f, 3.43273939e-07f, 2.81022636e-08f};
  constexpr float kEnds[] = {2.83297682f,     1.00167406f,    0.00943887047f,  -0.0076224613f,  0.00573950773f,
                             -0.00367342844f, 0.00134934322f, 0.000100950558f, -0.000200214257f};
  const auto one = hn::Set(d, 1.0f);
  const auto w = hn::Neg(hn::Log(d, hn::Mul(hn::Sub(one, x), hn::Add(one, x))));
  auto p = polynomial(d, hn::Sub(w, hn::Set(d, 2.5f)), kMiddle);
  const auto is_near_end = hn::Ge(w, hn::Set(d, 5.0f));
  if (HWY_UNLIKELY(!hn::AllFalse(d, is_near_end))) {
    p = hn::IfThenElse(is_near_end, polynomial(d, hn::Sub(hn::Sqrt(w), hn::Set(d, 3.0f)), kEnds), p);
  }
  return hn::Mul(p, x);
}
constexpr float kBelowOne = 0.99999994f;
ET_BOUNDED(Erfinv, kUnit<float>, -kBelowOne, kBelowOne, inverse_erf(d, x), x)  // what is neither is NaN
#undef ET_BOUNDED
#undef ET_CHECKED

// NAME(block) applies EXPRESSION, which sees d and x and is right for every float.
#define ET_PLAIN(NAME, EXPRESSION)         \
  void NAME(const PointwiseBlock& block) { \
    map_floats(                            \
        [](auto d, auto x) HWY_ATTR {      \
          static_cast<void>(d);            \
          return (EXPRESSION);             \
        },                                 \
        block);                            \
  }

ET_PLAIN(Angle, hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElseZero(hn::Lt(x, hn::Zero(d)), hn::Set(d, kPi<float>))))
ET_PLAIN(Ceil, hn::Ceil(x))
ET_PLAIN(Floor, hn::Floor(x))
ET_PLAIN(Frac, hn::Sub(x, hn::Trunc(x)))
ET_PLAIN(Round, hn::Round(x))
ET_PLAIN(Sign, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f),
                              hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, -1.0f), hn::Zero(d))))
ET_PLAIN(Trunc, hn::Trunc(x))
#undef ET_PLAIN

/// a (e^x - 1) for x <= 0, else b x.
void Elu(const PointwiseBlock& block) {
  map_floats(
      [a = block.a, b = block.b](auto d, auto x) HWY_ATTR {
        const auto negative = limit(d, x, -100.0f, 0.0f);
        const auto below = hn::Mul(hn::Set(d, a), near_zero(d, negative, hn::Expm1(d, negative)));
        return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Mul(x, hn::Set(d, b)));
      },
      block);
}

/// x b > a ? x : log(1 + e^(x b)) / b.
void Softplus(const PointwiseBlock& block) {
  map_floats(
      [threshold = block.a, beta = block.b](auto d, auto x) HWY_ATTR {
        const auto b = hn::Set(d, beta);
        const auto y = hn::Mul(x, b);
        const auto is_linear = hn::Or(hn::Gt(y, hn::Set(d, threshold)), hn::IsNaN(x));
        const auto curve = hn::Div(hn::Log1p(d, exp(d, limit(d, y, -105.0f, 88.0f))), b);
        return hn::IfThenElse(is_linear, x, curve);
      },
      block);
}

/// log(x / (1 - x)), x limited to [a, b].
void Logit(const PointwiseBlock& block) {
  map_floats(
      [a = block.a, b = block.b](auto d, auto x) HWY_ATTR {
        const auto low = hn::Set(d, a), high = hn::Set(d, b);
        x = hn::IfThenElse(hn::Lt(x, low), low, hn::IfThenElse(hn::Gt(x, high), high, x));
        return bounded(
            d, hn::Div(x, hn::Sub(hn::Set(d, 1.0f), x)), kLogarithm<float>, kSmallest, kLargest,
            [d](auto odds) HWY_ATTR { return hn::Log(d, odds); }, [](float odds) HWY_ATTR { return std::log(odds); });
      },
      block);
}

/// x^b for positive x, in doubles: the error of y log x, which e^… multiplies, stays far below a float's last bit.
void Pow(const PointwiseBlock& block) {
  const float exponent = block.b;
  map_floats(
      [exponent](auto d, auto all) HWY_ATTR {
        return checked(
            d, all, kSmallest, kLargest,
            [d, exponent](auto x) HWY_ATTR {
              const hn::Repartition<double, decltype(d)> dd;
              const auto e = hn::Set(dd, static_cast<double>(exponent));
              const auto bound = hn::Set(dd, 700.0);
              const auto power = [&](auto v) HWY_ATTR {
                const auto product = hn::Mul(e, hn::Log(dd, v));
                return hn::Exp(dd, hn::Max(hn::Min(product, bound), hn::Neg(bound)));
              };
              const hn::Half<decltype(d)> half;
              const auto low = power(hn::PromoteLowerTo(dd, x));
              const auto high = power(hn::PromoteUpperTo(dd, x));
              return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
            },
            [exponent](float x) HWY_ATTR { return std::pow(x, exponent); });
      },
      block);
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

// clang-format off
#define ET_LOOPS(X) \
  X(Acos) X(Acosh) X(Angle) X(Asin) X(Asinh) X(Atan) X(Atanh) X(Ceil) X(Cos) X(Cosh) X(Erfinv) X(Exp2) X(Expm1) \
  X(Floor) X(Frac) X(Log) X(Log10) X(Log1p) X(Log2) X(Pow) X(Round) X(Sign) X(Sin) X(Sinh) X(Tan) X(Trunc) X(Elu) \
  X(Logit) X(Softplus)
// clang-format on
#define ET_EXPORT(NAME) \
  HWY_EXPORT(NAME);     \
  static BlockFunction loop_##NAME() { return HWY_DYNAMIC_POINTER(NAME); }
ET_LOOPS(ET_EXPORT)
#undef ET_EXPORT
#undef ET_LOOPS

namespace {

template <BlockFunction (*Loop)(), size_t kCost, bool kPromotes>
Error choose(Arguments args, PointwiseOperation* operation) {
  operation->function = Loop();
  operation->cost = kCost;
  return add_floats(args, kPromotes, operation) ? Error::Ok : Error::NotSupported;
}

// elu(self, Scalar alpha, Scalar scale, Scalar input_scale, out)
Error choose_elu(Arguments args, PointwiseOperation* operation) {
  if (number_as_float(*args[3]) != 1.0f) {
    return Error::NotSupported;
  }
  operation->b = number_as_float(*args[2]);
  operation->a = number_as_float(*args[1]) * operation->b;
  return choose<&loop_Elu, kTranscendental, false>(args, operation);
}

// logit(self, float? eps, out)
Error choose_logit(Arguments args, PointwiseOperation* operation) {
  operation->a = -std::numeric_limits<float>::infinity();
  operation->b = std::numeric_limits<float>::infinity();
  if (!args[1]->is_none()) {
    operation->a = number_as_float(*args[1]);
    operation->b = 1.0f - operation->a;
  }
  return choose<&loop_Logit, 2 * kTranscendental, true>(args, operation);
}

// softplus(self, Scalar beta, Scalar threshold, out)
Error choose_softplus(Arguments args, PointwiseOperation* operation) {
  operation->a = number_as_float(*args[2]);
  operation->b = number_as_float(*args[1]);
  if (!(operation->a <= 88.0f)) {  // beyond, the exponential overflows in eager
    return Error::NotSupported;
  }
  return choose<&loop_Softplus, 2 * kTranscendental, false>(args, operation);
}

/// A function that gives floats for integers.
template <BlockFunction (*Loop)()>
constexpr Kernel promoting(const Signature& signature) {
  return make_pointwise_kernel<&choose<Loop, 2 * kTranscendental, true>>(signature);
}

/// One that leaves integers what they are; those are not for here.
template <BlockFunction (*Loop)()>
constexpr Kernel rounding(const Signature& signature) {
  return make_pointwise_kernel<&choose<Loop, kCheap, false>>(signature);
}

constexpr Kernel kKernels[] = {
    promoting<&loop_Acos>(signature::acos_out),
    promoting<&loop_Acosh>(signature::acosh_out),
    promoting<&loop_Angle>(signature::angle_out),
    promoting<&loop_Asin>(signature::asin_out),
    promoting<&loop_Asinh>(signature::asinh_out),
    promoting<&loop_Atan>(signature::atan_out),
    promoting<&loop_Atanh>(signature::atanh_out),
    rounding<&loop_Ceil>(signature::ceil_out),
    promoting<&loop_Cos>(signature::cos_out),
    promoting<&loop_Cosh>(signature::cosh_out),
    make_pointwise_kernel<&choose_elu>(signature::elu_out),
    promoting<&loop_Erfinv>(signature::erfinv_out),
    promoting<&loop_Exp2>(signature::exp2_out),
    promoting<&loop_Expm1>(signature::expm1_out),
    rounding<&loop_Floor>(signature::floor_out),
    rounding<&loop_Frac>(signature::frac_out),
    promoting<&loop_Log10>(signature::log10_out),
    promoting<&loop_Log1p>(signature::log1p_out),
    promoting<&loop_Log2>(signature::log2_out),
    promoting<&loop_Log>(signature::log_out),
    make_pointwise_kernel<&choose_logit>(signature::logit_out),
    rounding<&loop_Round>(signature::round_out),
    rounding<&loop_Sign>(signature::sign_out),
    promoting<&loop_Sin>(signature::sin_out),
    promoting<&loop_Sinh>(signature::sinh_out),
    make_pointwise_kernel<&choose_softplus>(signature::softplus_out),
    promoting<&loop_Tan>(signature::tan_out),
    rounding<&loop_Trunc>(signature::trunc_out),
};

}  // namespace

BlockFunction power_loop() { return loop_Pow(); }

ET_KERNEL_TABLE(transcendental, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
