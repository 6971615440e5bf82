// Functions whose vector form is right for a range of numbers only, compiled once a target. Included inside its pass
// only.
//
// An element outside of the range (infinities, NaN, a large angle) is computed one by one by a scalar function, so
// special values are those of the standard library.

#if defined(ET_KERNELS_OPTIMIZED_DOMAINS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_DOMAINS_INL_H_
#undef ET_KERNELS_OPTIMIZED_DOMAINS_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_DOMAINS_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Elements of y where `valid` is false, computed one by one from x.
template <class D, class T = hn::TFromD<D>, class V = hn::Vec<D>, class Scalar>
HWY_NOINLINE V repair(D d, V x, V y, hn::Mask<D> valid, Scalar scalar) {
  HWY_ALIGN T from[hn::MaxLanes(d)];
  HWY_ALIGN T to[hn::MaxLanes(d)];
  HWY_ALIGN T is_valid[hn::MaxLanes(d)];
  hn::Store(x, d, from);
  hn::Store(y, d, to);
  hn::Store(hn::IfThenElseZero(valid, hn::Set(d, T{1})), d, is_valid);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (is_valid[i] == T{0}) {
      to[i] = scalar(from[i]);
    }
  }
  return hn::Load(d, to);
}

/// The same of two operands: scalar(a, b).
template <class D, class T = hn::TFromD<D>, class V = hn::Vec<D>, class Scalar>
HWY_NOINLINE V repair_pair(D d, V a, V b, V y, hn::Mask<D> valid, Scalar scalar) {
  HWY_ALIGN T left[hn::MaxLanes(d)];
  HWY_ALIGN T right[hn::MaxLanes(d)];
  HWY_ALIGN T to[hn::MaxLanes(d)];
  HWY_ALIGN T is_valid[hn::MaxLanes(d)];
  hn::Store(a, d, left);
  hn::Store(b, d, right);
  hn::Store(y, d, to);
  hn::Store(hn::IfThenElseZero(valid, hn::Set(d, T{1})), d, is_valid);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (is_valid[i] == T{0}) {
      to[i] = scalar(left[i], right[i]);
    }
  }
  return hn::Load(d, to);
}

/// vector(x) for x in [low, high], scalar(x) elsewhere.
template <class D, class T = hn::TFromD<D>, class V = hn::Vec<D>, class Vector, class Scalar>
HWY_INLINE V checked(D d, V x, T low, T high, Vector vector, Scalar scalar) {
  const auto valid = hn::And(hn::Ge(x, hn::Set(d, low)), hn::Le(x, hn::Set(d, high)));
  const V y = vector(x);
  return HWY_LIKELY(hn::AllTrue(d, valid)) ? y : repair(d, x, y, valid, scalar);
}

/// A function's domain, the ends of which have values of their own; beyond them it is not a number.
template <typename T>
struct Domain {
  T low, high;
  T at_low, at_high;
};

template <typename T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <typename T>
constexpr T kPi = static_cast<T>(3.14159265358979323846);
template <typename T>
constexpr Domain<T> kArcCosine{-1, 1, kPi<T>, 0};
template <typename T>
constexpr Domain<T> kArcSine{-1, 1, -kPi<T> / 2, kPi<T> / 2};
template <typename T>
constexpr Domain<T> kFromOne{1, kInfinity<T>, 0, kInfinity<T>};
template <typename T>
constexpr Domain<T> kLogarithm{0, kInfinity<T>, -kInfinity<T>, kInfinity<T>};
template <typename T>
constexpr Domain<T> kLogarithm1{-1, kInfinity<T>, -kInfinity<T>, kInfinity<T>};
template <typename T>
constexpr Domain<T> kUnit{-1, 1, -kInfinity<T>, kInfinity<T>};

/// vector(x) for x in [low, high], what `domain` says at its ends and beyond, scalar(x) elsewhere.
template <class D, class T = hn::TFromD<D>, class V = hn::Vec<D>, class Vector, class Scalar>
HWY_INLINE V bounded(D d, V x, const Domain<T>& domain, T low, T high, Vector vector, Scalar scalar) {
  const auto first = hn::Eq(x, hn::Set(d, domain.low));
  const auto last = hn::Eq(x, hn::Set(d, domain.high));
  const auto outside = hn::Or(hn::Lt(x, hn::Set(d, domain.low)), hn::Gt(x, hn::Set(d, domain.high)));
  const auto known = hn::Or(outside, hn::Or(first, last));
  const auto valid = hn::Or(known, hn::And(hn::Ge(x, hn::Set(d, low)), hn::Le(x, hn::Set(d, high))));
  V y = hn::IfThenElse(first, hn::Set(d, domain.at_low), vector(x));
  y = hn::IfThenElse(last, hn::Set(d, domain.at_high), y);
  y = hn::IfThenElse(outside, hn::NaN(d), y);
  return HWY_LIKELY(hn::AllTrue(d, valid)) ? y : repair(d, x, y, valid, scalar);
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
