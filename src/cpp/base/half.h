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

// The conversions choose between results instead of branching, so that compilers turn loops over them into vector code.

inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  // Zero or subnormal: mantissa * 2^-24 is exact in float.
  const uint32_t subnormal = float_to_bits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t special = 0x7f800000u | (magnitude << 13);  // infinity or NaN
  const uint32_t finite = magnitude < 0x400u ? subnormal : normal;
  return bits_to_float(sign | (magnitude >= 0x7c00u ? special : finite));
}

inline uint16_t float_to_half(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const auto magnitude = static_cast<int32_t>(bits & 0x7fffffffu);
  const int32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal: adding 0.5 aligns the rounding point with the mantissa's last bit.
  const uint32_t shifted = float_to_bits(bits_to_float(static_cast<uint32_t>(magnitude)) + 0.5f);
  const int32_t subnormal = static_cast<int32_t>(shifted) - 0x3f000000;
  const int32_t special = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;  // NaN; infinity and what rounds past 65504
  const int32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(magnitude >= 0x477ff000 ? special : finite));
}

inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t quiet = (bits >> 16) | 0x40u;
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
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
