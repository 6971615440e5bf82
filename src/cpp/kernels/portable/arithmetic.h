/// Arithmetic with ATen's meaning where C++'s differs: integers wrap, division rounds by its mode, NaN passes through.
///
/// For: the functions that elementwise kernels apply. All are generic over the compute types float, double and int64_t.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace et::kernels::portable {

template <typename C>
inline C wrapping_add(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename C>
inline C wrapping_mul(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

template <typename C>
inline C negate(C a) {
  return wrapping_mul(a, C(-1));
}

template <typename C>
inline bool is_nan(C a) {
  return a != a;  // NOLINT: NaN
}

/// NaN when either is.
template <typename C>
inline C maximum(C a, C b) {
  return is_nan(a) || a > b ? a : b;
}
template <typename C>
inline C minimum(C a, C b) {
  return is_nan(a) || a < b ? a : b;
}

/// Quotient towards zero. Integers: b must not be 0.
template <typename C>
inline C div_trunc(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return b == -1 ? negate(a) : a / b;
  } else {
    return std::trunc(a / b);
  }
}

/// Quotient of floats towards minus infinity, exact also where a / b rounds up; `round` is applied to what each step
/// gives. Source: Python's float floor division, which ATen follows.
template <typename C, typename Round>
inline C div_floor_in_steps(C a, C b, const Round& round) {
  if (b == C(0)) {
    return a / b;
  }
  const C mod = round(std::fmod(a, b));
  C quotient = round(round(a - mod) / b);
  if (mod != C(0) && (b < C(0)) != (mod < C(0))) {
    quotient = round(quotient - C(1));
  }
  if (quotient == C(0)) {
    return std::copysign(C(0), a / b);
  }
  const C floored = std::floor(quotient);
  return round(quotient - floored) > C(0.5) ? floored + C(1) : floored;
}

/// Quotient towards minus infinity. Integers: b must not be 0.
template <typename C>
inline C div_floor(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    if (b == -1) {
      return negate(a);
    }
    const C quotient = a / b;
    return quotient - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
  } else {
    return div_floor_in_steps(a, b, [](C x) { return x; });
  }
}

/// Remainder with the sign of b. Integers: b must not be 0.
template <typename C>
inline C remainder_of(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    if (b == -1) {
      return 0;
    }
    const C mod = a % b;
    return mod != 0 && (mod < 0) != (b < 0) ? mod + b : mod;
  } else {
    const C mod = std::fmod(a, b);
    return mod != C(0) && (mod < C(0)) != (b < C(0)) ? mod + b : mod;
  }
}

/// Remainder with the sign of a. Integers: b must not be 0.
template <typename C>
inline C fmod_of(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    return b == -1 ? 0 : a % b;
  } else {
    return std::fmod(a, b);
  }
}

/// a to the power b. Integers wrap; a negative exponent gives 0 except for the bases 1 and -1.
template <typename C>
inline C power(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    if (b < 0) {
      return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    }
    C result = 1;
    for (; b > 0; b >>= 1) {
      if ((b & 1) != 0) {
        result = wrapping_mul(result, a);
      }
      a = wrapping_mul(a, a);
    }
    return result;
  } else {
    return std::pow(a, b);
  }
}

/// -1, 0 or 1; 0 for NaN, as in ATen.
template <typename C>
inline C sign_of(C a) {
  return static_cast<C>((a > C(0)) - (a < C(0)));
}

/// Any number as a truth value; NaN is true.
template <typename C>
inline bool is_true(C a) {
  return a != C(0);
}

}  // namespace et::kernels::portable
