#include "kernels/cortex_m/primitives.h"

namespace et::kernels::cortex_m {

namespace {

constexpr uint32_t kHidden = 1u << 23;
uint32_t mantissa_of(uint32_t bits) { return (bits & (kHidden - 1)) | kHidden; }

}  // namespace

int32_t exact_units(int32_t sum, float scale) {
  const uint32_t bits = bits_of(scale_in_integers(as_float(sum), scale, 1.0f));
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
  constexpr uint32_t kNaN = 0x7FC00000u, kSign = 1u << 31;
  const uint32_t sign = (bits_of(input) ^ bits_of(weight)) & kSign;
  const uint32_t a = bits_of(input) & ~kSign, b = bits_of(weight) & ~kSign, c = bits_of(output);
  const auto a_exponent = static_cast<int32_t>(a >> 23), b_exponent = static_cast<int32_t>(b >> 23);
  const int32_t both = a_exponent + b_exponent, power = both - static_cast<int32_t>(c >> 23);
  const bool are_finite = a_exponent != 255 && b_exponent != 255 && is_positive_normal(output);
  if (are_finite && (a == 0 || b == 0 || power <= 92)) {
    return 0;
  }
  // Products beyond the normal floats, and quotients near to their end.
  if (!are_finite || a_exponent == 0 || b_exponent == 0 || both < 128 || both > 380 || power > 252) {
    return from_bits<float>(kNaN | sign);
  }
  const uint64_t product = uint64_t{mantissa_of(a)} * (mantissa_of(b) << 8);  // in [2^54, 2^56)
  auto rest = static_cast<uint32_t>(product >> 32);
  auto behind = static_cast<uint32_t>(product);
  auto exponent = static_cast<uint32_t>(power + 1);
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
  return from_bits<float>((((exponent - 1) << 23) + mantissa) | sign);
}

}  // namespace et::kernels::cortex_m
