/// Elements looked at as their bits: whether a number is zero needs its width only, and whether it is a float.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace et::kernels::optimized {

/// The bits that make an element count as true: all of an integer's and, as both zeros are false, a float's beside the
/// sign.
template <typename Bits>
constexpr Bits bits_of_truth(bool is_float) {
  return is_float ? static_cast<Bits>(std::numeric_limits<Bits>::max() >> 1) : std::numeric_limits<Bits>::max();
}

/// f(Bits()) with the unsigned integer of `width` bytes, which are 1, 2, 4 or 8.
template <typename F>
auto with_bits_type(size_t width, F&& f) {
  switch (width) {
    case 1: return f(uint8_t());
    case 2: return f(uint16_t());
    case 4: return f(uint32_t());
    default: return f(uint64_t());
  }
}

}  // namespace et::kernels::optimized
