// Special functions of one tensor of floats, and of doubles where they are exact enough: the error function, what is
// left of it to 1, its inverse, and the logarithm of gamma.

#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/pointwise/functions-inl.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_unary.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// sin(pi r) for |r| <= 1/2, in doubles: Taylor's series.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sine_of_half_turns(D d, V r) {
  constexpr double kSine[] = {3.1415926535897931,      -5.1677127800499694,     2.5501640398773451,
                              -0.59926452932079188,    0.082145886611128191,    -0.0073704309457143478,
                              0.00046630280576761234,  -2.1915353447830204e-05, 7.9520540014755084e-07,
                              -2.2948428997269856e-08, 5.3926646626081248e-10};
  return hn::Mul(r, polynomial(d, hn::Mul(r, r), kSine));
}

/// log |gamma(x)| for a float x in doubles, so that what cancels around its zeros leaves a float's digits.
///
/// From 8 on by Stirling's series; below, gamma(x) = gamma(x + 8) / (x (x + 1) ... (x + 7)); negative numbers by
/// reflection. Source: M. Abramowitz, I. Stegun, "Handbook of mathematical functions", 6.1.15, 6.1.17 and 6.1.41.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_gamma(D d, V x) {
  const V one = hn::Set(d, 1.0);
  const V zero = hn::Zero(d);
  const auto is_negative = hn::Lt(x, zero);
  const V y = hn::IfThenElse(is_negative, hn::Sub(one, x), x);
  const auto is_small = hn::Lt(y, hn::Set(d, 8.0));
  // y (y + 7), (y + 1) (y + 6), ... differ by 6, 10 and 12.
  const V p = hn::Mul(y, hn::Add(y, hn::Set(d, 7.0)));
  const V low = hn::Mul(p, hn::Add(p, hn::Set(d, 6.0)));
  const V high = hn::Mul(hn::Add(p, hn::Set(d, 10.0)), hn::Add(p, hn::Set(d, 12.0)));
  const V product = hn::IfThenElse(is_small, hn::Mul(low, high), one);
  const V z = hn::IfThenElse(is_small, hn::Add(y, hn::Set(d, 8.0)), y);

  constexpr double kStirling[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                  1.0 / 1188, -691.0 / 360360, 1.0 / 156};
  const V inverse = hn::Div(one, z);
  const V inverse2 = hn::Mul(inverse, inverse);
  const V series = polynomial(d, inverse2, kStirling);
  const V half_log_two_pi = hn::Set(d, 0.91893853320467274178);
  const V stirling =
      hn::Add(hn::MulSub(hn::Sub(z, hn::Set(d, 0.5)), hn::Log(d, z), z), hn::MulAdd(series, inverse, half_log_two_pi));

  const V r = hn::Sub(x, hn::Round(x));
  const V sine = hn::Abs(sine_of_half_turns(d, r));
  const V reflected = hn::Div(hn::Mul(product, hn::Set(d, 3.14159265358979323846)), sine);
  const V logarithm = hn::Log(d, hn::IfThenElse(is_negative, reflected, product));
  const V result = hn::IfThenElse(is_negative, hn::Sub(logarithm, stirling), hn::Sub(stirling, logarithm));
  const auto is_zero = hn::Or(hn::Eq(x, one), hn::Eq(x, hn::Set(d, 2.0)));
  const auto is_pole = hn::And(hn::Le(x, zero), hn::Eq(r, zero));
  const V infinity = hn::Inf(d);
  const V bounded =
      hn::IfThenElse(hn::Or(is_pole, hn::Eq(hn::Abs(x), infinity)), infinity, hn::IfThenZeroElse(is_zero, result));
  return hn::IfThenElse(hn::IsNaN(x), x, bounded);
}

ET_FUNCTION_OF_FLOATS(LogGamma, in_doubles(d, [](auto dd, auto v) HWY_ATTR { return log_gamma(dd, v); }, x))

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
ET_FUNCTION_OF_FLOATS(Erfinv,
                      bounded(
                          d, x, kUnit<T>, -kBelowOne, kBelowOne, [d](V v) HWY_ATTR { return inverse_erf(d, v); },
                          [](T v) HWY_ATTR { return v; }))  // what is neither is NaN
ET_GUARDED(Erf, checked_doubles, erf(d, x), std::erf(x), T{-26}, T{26})
ET_GUARDED(Erfc, checked_doubles, erfc(d, x), std::erfc(x), T{-26}, T{26})

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

#define ET_ROWS(X)                                      \
  X(Erf, erf_out, kPromotes, kTranscendental)           \
  X(Erfc, erfc_out, kPromotes, 2 * kTranscendental)     \
  X(Erfinv, erfinv_out, kPromotes, 2 * kTranscendental) \
  X(LogGamma, lgamma_out, kPromotes, 8 * kTranscendental)
ET_ROWS(ET_EXPORT_FUNCTION)
static constexpr Kernel kKernels[] = {ET_ROWS(ET_FUNCTION_KERNEL)};
#undef ET_ROWS

ET_KERNEL_TABLE(special, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
