#include "kernels/cortex_m/primitives.h"

namespace et::kernels::cortex_m {

namespace {

constexpr uint32_t kHidden = 1u << 23;
uint32_t mantissa_of(uint32_t bits) { return (bits & (kHidden - 1)) | kHidden; }

}  // namespace

int32_t exact_units(int32_t sum, float scale) {
  const uint32_t bits = bits_of(as_float(sum) * scale);
  const uint32_t left = (bits >> 23 & 0xFFu) - 126u;  // the product is less than 2^left
  int32_t units = 0;
  if (static_cast<int32_t>(left) > 9) {
    units = 512;
  } else if (static_cast<int32_t>(left) >= 0) {
    const uint32_t mantissa = mantissa_of(bits), half = kHidden >> left;
    const uint32_t whole = mantissa >> (24 - left), rest = mantissa & (2 * half - 1);
    units = static_cast<int32_t>(whole + (rest > half || (rest == half && whole % 2 != 0) ? 1 : 0));
  }
  return bits >> 31 != 0 ? -units : units;
}

float scale_in_integers(float input, float weight, float output) {
  const uint32_t a = bits_of(input), b = bits_of(weight), c = bits_of(output);
  for (const uint32_t bits : {a, b, c}) {
    if (bits >> 23 < 96 || bits >> 23 > 160) {  // negative, or far from 1: may leave the normal floats
      return input * weight / output;
    }
  }
  const uint64_t product = uint64_t{mantissa_of(a)} * (mantissa_of(b) << 8);  // in [2^54, 2^56)
  auto rest = static_cast<uint32_t>(product >> 32);
  auto behind = static_cast<uint32_t>(product);
  uint32_t exponent = (a >> 23) + (b >> 23) - (c >> 23) + 1;
  if (rest < kHidden) {
    rest = rest << 1 | behind >> 31;
    behind <<= 1;
    --exponent;
  }
  rest += behind > 0x80000000u || (behind == 0x80000000u && (rest & 1u) != 0) ? 1u : 0u;
  const uint32_t divisor = mantissa_of(c);
  if (rest < divisor) {
    rest <<= 1;
    --exponent;
  }
  if (rest == 2 * divisor) {  // it was rounded up to a power of two
    rest = divisor;
    ++exponent;
  }
  uint32_t quotient = 1;  // of rest * 2^24, in three steps that fit 32 bits
  rest -= divisor;
  for (int step = 0; step < 3; ++step) {
    quotient = quotient << 8 | (rest << 8) / divisor;
    rest = (rest << 8) % divisor;
  }
  uint32_t mantissa = quotient >> 1;
  mantissa += (quotient & 1u) != 0 && (rest != 0 || (mantissa & 1u) != 0) ? 1u : 0u;
  return from_bits<float>(((exponent - 1) << 23) + mantissa);
}

}  // namespace et::kernels::cortex_m
