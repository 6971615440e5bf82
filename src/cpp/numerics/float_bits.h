/// Questions about floating-point numbers that integers answer, and integers as floats.
///
/// For: code that firmware for cores without floating point gets. Each comparison or sum of floats there is a function
/// of the compiler's library; one of them links all, some 2 KB. Not for: loops on other processors.
///
///     if (!is_positive_normal(scale)) { … }
///     const float low = as_float(-128);
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace et {

template <typename F>
using FloatBits = std::conditional_t<sizeof(F) == 8, uint64_t, uint32_t>;

template <typename F>
inline FloatBits<F> bits_of(F value) {
  FloatBits<F> bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

template <typename F>
inline F from_bits(FloatBits<F> bits) {
  F value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline bool is_zero(double value) { return bits_of(value) << 1 == 0; }
inline bool is_nan(double value) { return bits_of(value) << 1 > 0xFFE0000000000000u; }
inline bool is_finite(float value) { return bits_of(value) << 1 < 0xFF000000u; }
inline bool is_positive_normal(float value) { return bits_of(value) - 0x00800000u < 0x7F000000u; }

/// An integer as a float of its width, rounded to the nearest, ties to even. (Apart: firmware has it once.)
template <typename F>
[[gnu::noinline]] inline F rounded_integer(std::make_signed_t<FloatBits<F>> value) {
  using Bits = FloatBits<F>;
  constexpr int kWidth = 8 * sizeof(F), kDigits = std::numeric_limits<F>::digits;
  constexpr Bits kHalf = Bits{1} << (kWidth - kDigits - 1);
  if (value == 0) {
    return 0;
  }
  const Bits sign = value < 0 ? Bits{1} << (kWidth - 1) : 0;
  Bits digits = value < 0 ? 0 - static_cast<Bits>(value) : static_cast<Bits>(value);
  const int zeros = kWidth == 64 ? __builtin_clzll(digits) : __builtin_clz(static_cast<unsigned>(digits));
  digits <<= zeros;
  const Bits rest = digits & (2 * kHalf - 1);
  digits >>= kWidth - kDigits;
  digits += rest > kHalf || (rest == kHalf && digits % 2 != 0) ? 1 : 0;
  // The first digit, which is not held, adds one to the exponent, and so does a carry into another.
  const int exponent = std::numeric_limits<F>::max_exponent - 3 + kWidth - zeros;
  return from_bits<F>(sign + (static_cast<Bits>(exponent) << (kDigits - 1)) + digits);
}

inline float as_float(int32_t value) {
#if defined(__arm__) && !(defined(__ARM_FP) && (__ARM_FP & 4))
  return rounded_integer<float>(value);
#else
  return static_cast<float>(value);
#endif
}

inline double as_double(int64_t value) {
#if defined(__arm__) && !(defined(__ARM_FP) && (__ARM_FP & 8))
  return rounded_integer<double>(value);
#else
  return static_cast<double>(value);
#endif
}

}  // namespace et
