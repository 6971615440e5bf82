/// Half, BFloat16 and complex numbers: storage types with conversions to and from float.
///
/// Arithmetic is done in float by whoever computes; these types only carry bits. Conversions round to nearest, ties to
/// even, keep infinities and make every NaN quiet, as PyTorch's do.
///
/// Source: IEEE 754-2008 binary16; bfloat16 is the upper half of binary32.
#pragma once

#include <cstdint>
#include <cstring>

namespace et {

namespace detail {

inline float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) {
    return bits_to_float(sign | 0x7f800000u | (mantissa << 13));
  }
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24 is exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return bits_to_float(sign | float_to_bits(magnitude));
  }
  return bits_to_float(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t float_to_half(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u) {  // infinity or NaN
    return static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u));
  }
  if (magnitude >= 0x477ff000u) {  // rounds past 65504
    return static_cast<uint16_t>(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 aligns the rounding point with the mantissa's last bit
    const float shifted = bits_to_float(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (float_to_bits(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = float_to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace detail

/// IEEE binary16.
struct Half {
  uint16_t bits = 0;

  Half() = default;
  Half(float value) : bits(detail::float_to_half(value)) {}       // NOLINT(google-explicit-constructor)
  operator float() const { return detail::half_to_float(bits); }  // NOLINT(google-explicit-constructor)
};

/// The upper 16 bits of an IEEE binary32.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  BFloat16(float value) : bits(detail::float_to_bfloat16(value)) {}  // NOLINT(google-explicit-constructor)
  operator float() const { return detail::bits_to_float(static_cast<uint32_t>(bits) << 16); }  // NOLINT
};

/// A complex number as it lies in memory: real, then imaginary part. Exists only between operators.
struct ComplexFloat {
  float re = 0;
  float im = 0;
};
struct ComplexDouble {
  double re = 0;
  double im = 0;
};

}  // namespace et
