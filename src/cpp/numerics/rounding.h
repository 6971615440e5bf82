/// Rounding to the nearest integer, ties to even, as quantization does it everywhere (docs/reference/numerics.md).
///
/// For: kernels that quantize. A library call a value would be slow where the processor has no instruction for it.
/// Adding and taking away a number whose steps are one apart rounds in the floating-point unit, and compilers make
/// vectors of it.
#pragma once

#include <cmath>
#include <type_traits>

namespace et {

/// The integer next to `value`, the even one of two. NaN and infinities stay. Requires the default rounding mode.
template <typename T>
inline T round_to_even(T value) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  constexpr T kWhole = std::is_same_v<T, float> ? T(8388608) : T(4503599627370496);  // from here on all are integers
  const T shift = std::copysign(kWhole, value);
  return std::abs(value) < kWhole ? (value + shift) - shift : value;
}

}  // namespace et
