// Transcendental functions on vectors of double under the names that math-inl.h has for float, and erfc of both,
// compiled once a target. Included inside the target's pass only.
//
// The vector functions are Highway's, at most 4 ulp from the exact value, and the error function below.

#if defined(ET_KERNELS_OPTIMIZED_DOUBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_DOUBLES_INL_H_
#undef ET_KERNELS_OPTIMIZED_DOUBLES_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_DOUBLES_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "kernels/optimized/vec/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {

using Doubles = hn::ScalableTag<double>;
using DoubleVector = hn::Vec<Doubles>;

template <size_t N>
HWY_INLINE DoubleVector polynomial(Doubles d, DoubleVector x, const double (&c)[N]) {
  auto sum = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) {
    sum = hn::MulAdd(sum, x, hn::Set(d, c[i]));
  }
  return sum;
}

/// e^x, 0 below -707.
HWY_INLINE DoubleVector exp(Doubles d, DoubleVector x) { return hn::Exp(d, x); }
HWY_INLINE DoubleVector tanh(Doubles d, DoubleVector x) { return hn::Tanh(d, x); }
HWY_INLINE DoubleVector sigmoid(Doubles d, DoubleVector x) {
  return hn::Div(hn::Set(d, 1.0), hn::Add(hn::Set(d, 1.0), exp(d, hn::Neg(x))));
}

/// erfc(x) for x >= 0 as e^(-x^2) f(x) / (1 + 2 x), f a polynomial of (x - center) / (x + center).
/// Source of the form: M. Shepherd, J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981.
template <class D, size_t N, class V = hn::Vec<D>>
HWY_INLINE V erfc_of_positive(D d, V x, hn::TFromD<D> center, const hn::TFromD<D> (&c)[N]) {
  const V middle = hn::Set(d, center);
  const V square = hn::Mul(x, x);
  const V rest = hn::MulSub(x, x, square);  // what the square lost, which the exponential would multiply
  const V power = exp(d, hn::Neg(square));
  const V t = hn::Div(hn::Sub(x, middle), hn::Add(x, middle));
  const V f = hn::Div(polynomial(d, t, c), hn::MulAdd(x, hn::Set(d, 2), hn::Set(d, 1)));
  return hn::Mul(hn::NegMulAdd(power, rest, power), f);
}

/// 2 - erfc(-x) below 0. The polynomial is interpolated at Chebyshev's nodes over [0, 11], error 3e-9.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erfc(D d, V x) {
  constexpr float kCoefficients[] = {1.25300806f,    -0.135621151f,    -0.047562442f,   0.129646692f,
                                     -0.119270051f,  0.068294505f,     -0.023803473f,   0.00256547027f,
                                     0.00201216805f, -0.000765231726f, -0.000263974188f};
  const V y = limit(d, hn::Abs(x), 0.0f, 11.0f);  // beyond 10.06 it rounds to 0
  const V tail = erfc_of_positive(d, y, 3.0f, kCoefficients);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0f), tail), tail);
}

/// For 0 <= x <= 26.5. The polynomial is interpolated at Chebyshev's nodes, error 7e-16.
HWY_INLINE DoubleVector erfc_of_positive(Doubles d, DoubleVector x) {
  constexpr double kCoefficients[] = {1.2329951186255526,      -0.13962111684057552,    0.015379652102595913,
                                      0.068097054255958925,    -0.10103906603477862,    0.093732834962182487,
                                      -0.066330365852150783,   0.037167516006217677,    -0.016197733524042843,
                                      0.0050319667064388923,   -0.00075777733575466859, -0.00019924348270804971,
                                      0.00015064005697033983,  -2.443028184973729e-05,  -1.1272978585231567e-05,
                                      5.7488316320960225e-06,  3.7843573322253591e-07,  -8.4191884563156153e-07,
                                      -3.4660137002818085e-09, 9.6062077760891131e-08,  1.4271002325465475e-08};
  return erfc_of_positive(d, x, 4.0, kCoefficients);
}

/// For |x| <= 26.5.
HWY_INLINE DoubleVector erfc(Doubles d, DoubleVector x) {
  const auto tail = erfc_of_positive(d, hn::Abs(x));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0), tail), tail);
}

/// Taylor's series around 0, 1 - erfc beyond.
HWY_INLINE DoubleVector erf(Doubles d, DoubleVector x) {
  constexpr double kSeries[] = {1.1283791670955126,      -0.37612638903183754,   0.11283791670955126,
                                -0.026866170645131252,   0.0052239776254421879,  -0.00085483270234508533,
                                0.00012055332981789664,  -1.492565035840625e-05, 1.6462114365889248e-06,
                                -1.6365844691234924e-07, 1.4807192815879218e-08, -1.2290555301717928e-09,
                                9.4227590646504113e-11,  -6.7113668551641105e-12};
  const auto y = hn::Abs(x);
  const auto small = hn::Mul(x, polynomial(d, hn::Mul(x, x), kSeries));
  const auto large = hn::CopySign(hn::Sub(hn::Set(d, 1.0), erfc_of_positive(d, y)), x);
  return hn::IfThenElse(hn::Lt(y, hn::Set(d, 0.65)), small, large);
}

/// For |x| <= 36.
HWY_INLINE DoubleVector gelu(Doubles d, DoubleVector x) {
  return hn::Mul(hn::Mul(x, hn::Set(d, 0.5)), erfc(d, hn::Mul(x, hn::Set(d, -0.70710678118654752440))));
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
