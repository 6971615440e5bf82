// What softmax and attention make of a row of scores, compiled once a target: its maximum, and powers of e of what is
// below it. Included inside the target's pass only.

#if defined(ET_KERNELS_OPTIMIZED_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_SOFTMAX_INL_H_
#undef ET_KERNELS_OPTIMIZED_SOFTMAX_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_SOFTMAX_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <limits>
#include <type_traits>

#include "kernels/optimized/vec/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x, or `low` where that is larger. NaN stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V at_least(D d, V x, hn::TFromD<D> low) {
#if HWY_ARCH_X86  // its instruction gives the second operand beside NaN
  return hn::Max(hn::Set(d, low), x);
#else
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, low)), hn::Set(d, low), x);
#endif
}

/// e^x for x <= 0, as `sigmoid` has it: 2^n, which the rounding addition leaves in the lowest bits with the bias of an
/// exponent, times a polynomial of r. 0 from -87.7 down, where results are no longer normal; NaN gives NaN. The
/// relative error is 2 ulp, and 2e-9 more for each power of two below 1, as ln 2 is one number here.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_below_one(D d, V x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
    const V e = hn::Exp(d, at_least(d, x, -1000.0));  // 0 there; Highway's takes neither -infinity nor NaN
    return hn::IfThenElse(hn::IsNaN(x), x, e);
  } else {
    const V rounding = hn::Set(d, 12582912.0f + 127.0f);
    x = at_least(d, x, -88.0f);
    const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), rounding);
    const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(hn::RebindToSigned<D>(), shifted)));
    const V r = hn::NegMulAdd(hn::Sub(shifted, rounding), hn::Set(d, 0.693147180559945309f), x);
    constexpr float kCoefficients[] = {1.0f, 0.999999702f, 0.499991477f, 0.166676387f, 0.0418981612f, 0.00829027221f};
    return hn::Mul(scale, polynomial(d, r, kCoefficients));
  }
}

/// The largest number of x[0 … n), n >= 1; beside NaN that or NaN, -infinity where all are NaN.
template <class T>
HWY_INLINE T largest_number(const T* x, size_t n) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  if (n < lanes) {
    return hn::ReduceMax(d, hn::Max(hn::LoadNOr(lowest, d, x, n), lowest));
  }
  auto m0 = lowest, m1 = lowest, m2 = lowest, m3 = lowest;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(hn::LoadU(d, x + i), m0);
    m1 = hn::Max(hn::LoadU(d, x + i + lanes), m1);
    m2 = hn::Max(hn::LoadU(d, x + i + 2 * lanes), m2);
    m3 = hn::Max(hn::LoadU(d, x + i + 3 * lanes), m3);
  }
  for (; i + lanes <= n; i += lanes) {
    m0 = hn::Max(hn::LoadU(d, x + i), m0);
  }
  m1 = hn::Max(hn::LoadU(d, x + n - lanes), m1);  // the rest, with some once more
  return hn::ReduceMax(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)));
}

/// The sum of e^exponent(x[i]) for i < n; kWrite: y[i] is that power.
template <bool kWrite, class T, class Exponent>
HWY_INLINE T sum_of_powers_of(const T* x, T* y, size_t n, const Exponent& exponent) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto power = [&](size_t i) HWY_ATTR {
    const auto e = exp_below_one(d, exponent(hn::LoadU(d, x + i)));
    if constexpr (kWrite) {
      hn::StoreU(e, d, y + i);
    }
    return e;
  };
  auto s0 = hn::Zero(d), s1 = s0;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    s0 = hn::Add(s0, power(i));
    s1 = hn::Add(s1, power(i + lanes));
  }
  if (i + lanes <= n) {
    s0 = hn::Add(s0, power(i));
    i += lanes;
  }
  if (i < n) {
    const auto e = exp_below_one(d, exponent(hn::LoadN(d, x + i, n - i)));
    if constexpr (kWrite) {
      hn::StoreN(e, d, y + i, n - i);
    }
    s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, n - i), e));
  }
  return hn::ReduceSum(d, hn::Add(s0, s1));
}

/// The same of e^(x[i] - m).
template <bool kWrite, class T>
HWY_INLINE T sum_of_powers(const T* x, T* y, size_t n, T m) {
  const auto vm = hn::Set(hn::ScalableTag<T>(), m);
  return sum_of_powers_of<kWrite>(x, y, n, [&](auto v) HWY_ATTR { return hn::Sub(v, vm); });
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
