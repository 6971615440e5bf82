// Special functions of one tensor of floats: the logarithm of gamma and the complementary error function.

#include "kernels/optimized/vec/every_target-inl.h"

#include <limits>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/math-inl.h"
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
  const V r2 = hn::Mul(r, r);
  V sum = hn::Set(d, kSine[10]);
  for (size_t i = 10; i-- > 0;) {
    sum = hn::MulAdd(sum, r2, hn::Set(d, kSine[i]));
  }
  return hn::Mul(r, sum);
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
  V series = hn::Set(d, kStirling[6]);
  for (size_t i = 6; i-- > 0;) {
    series = hn::MulAdd(series, inverse2, hn::Set(d, kStirling[i]));
  }
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

void LogGamma(const PointwiseBlock& block) {
  map_floats(
      [](auto d, auto x) HWY_ATTR {
        const hn::Repartition<double, decltype(d)> dd;
        const hn::Half<decltype(d)> half;
        const auto low = log_gamma(dd, hn::PromoteLowerTo(dd, x));
        const auto high = log_gamma(dd, hn::PromoteUpperTo(dd, x));
        return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
      },
      block);
}

/// erfc(x) = e^(-x^2) f(x) / (1 + 2 x) for x >= 0, f a polynomial of (x - 3) / (x + 3), and 2 - erfc(-x) below.
/// Source of the form: M. Shepherd, J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981; the
/// polynomial is interpolated at Chebyshev's nodes over [0, 11], error 3e-9.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erfc(D d, V x) {
  constexpr float kCoefficients[] = {1.25300806f,    -0.135621151f,    -0.047562442f,   0.129646692f,
                                     -0.119270051f,  0.068294505f,     -0.023803473f,   0.00256547027f,
                                     0.00201216805f, -0.000765231726f, -0.000263974188f};
  const V one = hn::Set(d, 1.0f);
  const V three = hn::Set(d, 3.0f);
  const V y = limit(d, hn::Abs(x), 0.0f, 11.0f);  // beyond 10.06 it rounds to 0
  const V square = hn::Mul(y, y);
  const V rest = hn::MulSub(y, y, square);  // what the square lost, which the exponential would multiply
  const V power = exp(d, hn::Neg(square));
  const V t = hn::Div(hn::Sub(y, three), hn::Add(y, three));
  const V f = hn::Div(polynomial(d, t, kCoefficients), hn::MulAdd(y, hn::Set(d, 2.0f), one));
  const V tail = hn::Mul(hn::NegMulAdd(power, rest, power), f);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0f), tail), tail);
}

void Erfc(const PointwiseBlock& block) {
  map_floats([](auto d, auto x) HWY_ATTR { return erfc(d, x); }, block);
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

HWY_EXPORT(Erfc);
HWY_EXPORT(LogGamma);

namespace {

BlockFunction erfc_loop() { return HWY_DYNAMIC_POINTER(Erfc); }
BlockFunction log_gamma_loop() { return HWY_DYNAMIC_POINTER(LogGamma); }

template <BlockFunction (*Loop)(), size_t kCost>
Error choose(Arguments args, PointwiseOperation* operation) {
  operation->function = Loop();
  operation->cost = kCost;
  return add_floats(args, true, operation) ? Error::Ok : Error::NotSupported;
}

constexpr Kernel kKernels[] = {
    make_pointwise_kernel<&choose<&erfc_loop, 2 * kTranscendental>>(signature::erfc_out),
    make_pointwise_kernel<&choose<&log_gamma_loop, 8 * kTranscendental>>(signature::lgamma_out),
};

}  // namespace

ET_KERNEL_TABLE(special, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
