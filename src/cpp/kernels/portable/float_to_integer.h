/// Floats as integers, where C++ leaves open what a float becomes that does not fit: NaN, infinities, numbers too
/// large.
///
/// For: casts of tensors, which give what ATen's give on x86 for all of them. Not for: floats that are known to fit.
///
/// Semantics: towards zero. Integers of 8 and 16 bits and i32 come from an int32, which is the smallest one where the
/// float does not fit. u8 and u32 come from an int64 likewise; u64 keeps what fits it.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace et::kernels::portable {

template <typename To, typename From>
inline To float_to_integer(From value) {
  static_assert(std::is_floating_point_v<From> && std::is_integral_v<To>);
  if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr From kHalf = static_cast<From>(9223372036854775808.0);
    if (value >= kHalf) {
      return value < 2 * kHalf ? static_cast<uint64_t>(value) : 0;
    }
  }
  constexpr bool kIsNarrow = sizeof(To) <= 4 && !std::is_same_v<To, uint8_t> && !std::is_same_v<To, uint32_t>;
  using Middle = std::conditional_t<kIsNarrow, int32_t, int64_t>;
  constexpr From kLimit = static_cast<From>(kIsNarrow ? 2147483648.0 : 9223372036854775808.0);
  // Of doubles those between -2^31 - 1 and -2^31 fit, too, but for their fraction.
  const bool fits = value < kLimit && (value >= -kLimit || (kIsNarrow && sizeof(From) == 8 && value > -kLimit - 1));
  return static_cast<To>(fits ? static_cast<Middle>(value) : std::numeric_limits<Middle>::min());
}

}  // namespace et::kernels::portable
