// Functions of one number, written once for floats and doubles and compiled once a target. Included inside the target's
// pass only.
//
//     ET_FUNCTION(Square, hn::Mul(x, x))                                  // in the target's namespace
//     #define ET_ROWS(X) X(Square, square_out, kKeepsType, kCheap) …
//     ET_ROWS(ET_EXPORT_FUNCTION)                                         // once
//     constexpr Kernel kKernels[] = {ET_ROWS(ET_FUNCTION_KERNEL) …};

#if defined(ET_KERNELS_OPTIMIZED_FUNCTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_FUNCTIONS_INL_H_
#undef ET_KERNELS_OPTIMIZED_FUNCTIONS_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_FUNCTIONS_INL_H_
#endif

#include <cmath>
#include <limits>

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/vec/domains-inl.h"
#include "kernels/optimized/vec/doubles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {

template <class T>
constexpr T by_type(double of_float, double of_double) {
  return static_cast<T>(sizeof(T) == sizeof(double) ? of_double : of_float);
}
template <class T>
constexpr T kLargest = std::numeric_limits<T>::max();
template <class T>
constexpr T kSmallest = std::numeric_limits<T>::min();  // that is not subnormal
template <class T>
constexpr T kAngle = 30000;  // Highway reduces angles up to 39000 well
template <class T>
constexpr T kExponent = by_type<T>(87, 700);  // e^x and e^-x are finite and normal
constexpr double kHalfRoot = 0.70710678118654752440;

/// x limited to [low, high]; NaN stays.
template <class D, class V>
HWY_INLINE V between(D d, V x, hn::TFromD<D> low, hn::TFromD<D> high) {
  return limit(x, hn::Set(d, low), hn::Set(d, high));
}

/// y, but x where it is a zero or subnormal: what functions give that are x near 0, of which Highway's lose the sign.
template <class D, class V>
HWY_INLINE V near_zero(D d, V x, V y) {
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, kSmallest<hn::TFromD<D>>)), x, y);
}

/// As `checked`, of a function whose form for floats is right for all of them.
template <class D, class V, class T, class Vector, class Scalar>
HWY_INLINE V checked_doubles(D d, V x, T low, T high, Vector vector, Scalar scalar) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return vector(x);
  } else {
    return checked(d, x, low, high, vector, scalar);
  }
}

/// Fn with the operation's numbers. No lambda, which compilers leave as a function of its own where it has three calls.
template <class T, class Fn>
struct WithNumbers {
  T a, b;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return Fn()(d, x, a, b);
  }
};
template <class T, class Fn>
void Map(const PointwiseBlock& block) {
  map_numbers<T>(WithNumbers<T, Fn>{static_cast<T>(block.a), static_cast<T>(block.b)}, block);
}

// NAMELoops(): the loops of EXPRESSION, which sees d, x (a vector), its element type T, and the operation's numbers a
// and b.
#define ET_FUNCTOR(NAME, EXPRESSION)                                                                       \
  struct NAME {                                                                                            \
    template <class D, class V, class T>                                                                   \
    HWY_INLINE V operator()([[maybe_unused]] D d, V x, [[maybe_unused]] T a, [[maybe_unused]] T b) const { \
      return (EXPRESSION);                                                                                 \
    }                                                                                                      \
  };
#define ET_FUNCTION(NAME, EXPRESSION) \
  ET_FUNCTOR(NAME, EXPRESSION)        \
  NumberLoops NAME##Loops() { return {&Map<float, NAME>, &Map<double, NAME>}; }
#define ET_FUNCTION_OF_FLOATS(NAME, EXPRESSION) \
  ET_FUNCTOR(NAME, EXPRESSION)                  \
  NumberLoops NAME##Loops() { return {&Map<float, NAME>, nullptr}; }

// The same by GUARD(d, x, …, vector, scalar), one of `checked`, `checked_doubles` and `bounded`: VECTOR of vectors,
// SCALAR of single elements. Both see x and T. Compilers leave a lambda of several calls as a function unless they must
// not, which costs a fifth of exp's time.
#define ET_GUARDED(NAME, GUARD, VECTOR, SCALAR, ...)                                                              \
  ET_FUNCTION(NAME, GUARD(                                                                                        \
                        d, x, __VA_ARGS__, [d](V x) HWY_ATTR __attribute__((always_inline)) { return (VECTOR); }, \
                        [](T x) HWY_ATTR { return static_cast<T>(SCALAR); }))

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
