// Pointwise functions of one tensor of floats or doubles, beyond the activations: logarithms, trigonometric and
// hyperbolic functions and their inverses, and the rounding functions.
//
// The vector functions are Highway's (hwy/contrib/math), at most 4 ulp from the exact value in the range that each
// states. An element outside of it (0, infinities, NaN, a large angle) is computed by the standard library instead, so
// special values are those of the portable kernels.

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/pointwise/functions-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_activation.h"
#include "ops/signatures/portable/op_unary.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

ET_GUARDED(Acos, bounded, hn::Acos(d, x), std::acos(x), kArcCosine<T>, T{-1}, T{1})
ET_GUARDED(Acosh, bounded, hn::Acosh(d, x), std::acosh(x), kFromOne<T>, T{1}, by_type<T>(kLargest<float>, 1e150))
ET_GUARDED(Asin, bounded, hn::Asin(d, x), std::asin(x), kArcSine<T>, T{-1}, T{1})
ET_GUARDED(Asinh, checked, hn::Asinh(d, x), std::asinh(x), by_type<T>(-1e18, -1e150), by_type<T>(1e18, 1e150))
ET_GUARDED(Atan, checked, hn::Atan(d, x), std::atan(x), -kLargest<T>, kLargest<T>)
ET_GUARDED(Atanh, bounded, hn::Atanh(d, x), std::atanh(x), kUnit<T>, by_type<T>(-0.999999, -0.999999999999),
           by_type<T>(0.999999, 0.999999999999))
ET_GUARDED(Cos, checked, hn::Cos(d, x), std::cos(x), -kAngle<T>, kAngle<T>)
ET_GUARDED(Cosh, checked, hn::MulAdd(exp(d, x), hn::Set(d, T(0.5)), hn::Div(hn::Set(d, T(0.5)), exp(d, x))),
           std::cosh(x), -kExponent<T>, kExponent<T>)
ET_GUARDED(Exp2, checked, hn::Exp2(d, x), std::exp2(x), by_type<T>(-125, -1000), by_type<T>(127, 1000))
ET_GUARDED(Expm1, checked, near_zero(d, x, hn::Expm1(d, x)), std::expm1(x), -kExponent<T>, kExponent<T>)
ET_GUARDED(Log, bounded, hn::Log(d, x), std::log(x), kLogarithm<T>, kSmallest<T>, kLargest<T>)
ET_GUARDED(Log10, bounded, hn::Log10(d, x), std::log10(x), kLogarithm<T>, kSmallest<T>, kLargest<T>)
ET_GUARDED(Log1p, bounded, hn::Log1p(d, x), std::log1p(x), kLogarithm1<T>, T(-0.999), kLargest<T>)
ET_GUARDED(Log2, bounded, hn::Log2(d, x), std::log2(x), kLogarithm<T>, kSmallest<T>, kLargest<T>)
ET_GUARDED(Sin, checked, near_zero(d, x, hn::Sin(d, x)), std::sin(x), -kAngle<T>, kAngle<T>)
ET_GUARDED(Sinh, checked, hn::Sinh(d, x), std::sinh(x), -kExponent<T>, kExponent<T>)
ET_GUARDED(Tan, checked, near_zero(d, x, hn::Div(hn::Sin(d, x), hn::Cos(d, x))), std::tan(x), -kAngle<T>, kAngle<T>)

ET_FUNCTION_OF_FLOATS(Angle, hn::IfThenElse(hn::IsNaN(x), x,
                                            hn::IfThenElseZero(hn::Lt(x, hn::Zero(d)), hn::Set(d, kPi<float>))))
ET_FUNCTION(Ceil, hn::Ceil(x))
ET_FUNCTION(Floor, hn::Floor(x))
ET_FUNCTION(Frac, hn::Sub(x, hn::Trunc(x)))
ET_FUNCTION(Round, hn::Round(x))
ET_FUNCTION(RoundDecimals, hn::Div(hn::Round(hn::Mul(x, hn::Set(d, a))), hn::Set(d, a)))
ET_FUNCTION(RoundTens, hn::Mul(hn::Round(hn::Div(x, hn::Set(d, a))), hn::Set(d, a)))
ET_FUNCTION_OF_FLOATS(Sign, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f),
                                           hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, -1.0f), hn::Zero(d))))
ET_FUNCTION(Trunc, hn::Trunc(x))

/// log(x / (1 - x)), x limited to [a, b].
template <class D, class V>
HWY_INLINE V logit(D d, V x, float a, float b) {
  const V low = hn::Set(d, a), high = hn::Set(d, b);
  x = hn::IfThenElse(hn::Lt(x, low), low, hn::IfThenElse(hn::Gt(x, high), high, x));
  return bounded(
      d, hn::Div(x, hn::Sub(hn::Set(d, 1.0f), x)), kLogarithm<float>, kSmallest<float>, kLargest<float>,
      [d](V odds) HWY_ATTR { return hn::Log(d, odds); }, [](float odds) HWY_ATTR { return std::log(odds); });
}
ET_FUNCTION_OF_FLOATS(Logit, logit(d, x, a, b))

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

// clang-format off
#define ET_ROWS(X)                                  \
  X(Acos, acos_out, kPromotes, 2 * kTranscendental) \
  X(Acosh, acosh_out, kPromotes, 2 * kTranscendental) \
  X(Angle, angle_out, kPromotes, 2 * kTranscendental) \
  X(Asin, asin_out, kPromotes, 2 * kTranscendental) \
  X(Asinh, asinh_out, kPromotes, 2 * kTranscendental) \
  X(Atan, atan_out, kPromotes, 2 * kTranscendental) \
  X(Atanh, atanh_out, kPromotes, 2 * kTranscendental) \
  X(Ceil, ceil_out, kKeepsType, kCheap)             \
  X(Cos, cos_out, kPromotes, 2 * kTranscendental)   \
  X(Cosh, cosh_out, kPromotes, 2 * kTranscendental) \
  X(Exp2, exp2_out, kPromotes, 2 * kTranscendental) \
  X(Expm1, expm1_out, kPromotes, 2 * kTranscendental) \
  X(Floor, floor_out, kKeepsType, kCheap)           \
  X(Frac, frac_out, kKeepsType, kCheap)             \
  X(Log10, log10_out, kPromotes, 2 * kTranscendental) \
  X(Log1p, log1p_out, kPromotes, 2 * kTranscendental) \
  X(Log2, log2_out, kPromotes, 2 * kTranscendental) \
  X(Log, log_out, kPromotes, 2 * kTranscendental)   \
  X(Round, round_out, kKeepsType, kCheap)           \
  X(Sign, sign_out, kKeepsType, kCheap)             \
  X(Sin, sin_out, kPromotes, 2 * kTranscendental)   \
  X(Sinh, sinh_out, kPromotes, 2 * kTranscendental) \
  X(Tan, tan_out, kPromotes, 2 * kTranscendental)   \
  X(Trunc, trunc_out, kKeepsType, kCheap)
// clang-format on
ET_ROWS(ET_EXPORT_FUNCTION)
ET_EXPORT_FUNCTION(Logit)
ET_EXPORT_FUNCTION(RoundDecimals)
ET_EXPORT_FUNCTION(RoundTens)

namespace {

// logit(self, float? eps, out)
Error choose_logit(Arguments args, PointwiseOperation* operation) {
  operation->a = -std::numeric_limits<float>::infinity();
  operation->b = std::numeric_limits<float>::infinity();
  if (!args[1]->is_none()) {
    const float low = number_as_float(*args[1]);
    operation->a = low;
    operation->b = 1.0f - low;
  }
  return choose_function(args, loops_of_Logit(), kPromotes, 2 * kTranscendental, operation);
}

// round(self, *, int decimals, out): round(x * power) / power, or round(x / power) * power for places before the point.
Error choose_round_decimals(Arguments args, PointwiseOperation* operation) {
  const auto decimals = static_cast<double>(args[1]->number_as_int());
  operation->a = std::pow(10.0, std::fabs(decimals));
  const NumberLoops loops = decimals < 0 ? loops_of_RoundTens() : loops_of_RoundDecimals();
  return choose_function(args, loops, kKeepsType, kDivides, operation);
}

constexpr Kernel kKernels[] = {
    ET_ROWS(ET_FUNCTION_KERNEL) make_pointwise_kernel<&choose_logit>(signature::logit_out),
    make_pointwise_kernel<&choose_round_decimals>(signature::round_decimals_out),
};
#undef ET_ROWS

}  // namespace

ET_KERNEL_TABLE(transcendental, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
