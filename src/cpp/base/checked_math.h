/// Arithmetic that says when it overflowed. For every size that comes from a file or a caller.
///
///     size_t nbytes;
///     ET_CHECK_OR_RETURN(!mul_overflow(count, item_size, &nbytes), InvalidProgram, "...");
#pragma once

#include <cstddef>
#include <cstdint>

namespace et {

/// `*out = a * b`; true when the exact product does not fit T (then *out is unspecified).
template <typename T>
[[nodiscard]] constexpr bool mul_overflow(T a, T b, T* out) {
  return __builtin_mul_overflow(a, b, out);
}

/// `*out = a + b`; true when the exact sum does not fit T.
template <typename T>
[[nodiscard]] constexpr bool add_overflow(T a, T b, T* out) {
  return __builtin_add_overflow(a, b, out);
}

/// `*out` = `value` as To; true when it does not fit.
template <typename To, typename From>
[[nodiscard]] constexpr bool narrow_overflow(From value, To* out) {
  return __builtin_add_overflow(value, From{0}, out);
}

/// Rounds `value` up to a multiple of `alignment` (a power of two); true when that overflows.
[[nodiscard]] constexpr bool align_up_overflow(size_t value, size_t alignment, size_t* out) {
  if (__builtin_add_overflow(value, alignment - 1, out)) {
    return true;
  }
  *out &= ~(alignment - 1);
  return false;
}

/// True for a multiple of a power of two. Few microcontrollers divide 64 bits.
constexpr bool is_multiple_of(uint64_t value, uint64_t power) { return (value & (power - 1)) == 0; }

}  // namespace et
