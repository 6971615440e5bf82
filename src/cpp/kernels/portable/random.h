/// Philox: a counter-based random generator. The same seed gives the same numbers on every machine; normal ones may
/// differ by the rounding of logarithm and cosine (optimized/random/random.cpp computes those in vectors).
///
/// For: rand, randn, dropout and their kin. Not for: cryptography, nor for torch's own sequence of numbers: a model
/// that draws random numbers is compared with eager PyTorch by their distribution.
///
///     Philox philox(context.random());           // takes the state's counter and moves it on by what was drawn
///     const float u = philox.uniform();          // in [0, 1), 24 bits
///
/// Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox4x32-10, its constants).
#pragma once

#include <cmath>

#include "runtime/kernel_types.h"

namespace et::kernels::portable {

class Philox {
 public:
  explicit Philox(runtime::RandomState& state) : state_(state) {}
  Philox(const Philox&) = delete;
  Philox& operator=(const Philox&) = delete;

  /// 32 random bits.
  uint32_t bits() {
    if (position_ == 4) {
      generate();
      position_ = 0;
    }
    return block_[position_++];
  }
  uint64_t bits64() {
    const uint64_t high = bits();
    return high << 32 | bits();
  }
  /// Uniform in [0, 1): 24 bits for float, 53 for double.
  template <typename T>
  T uniform() {
    if constexpr (sizeof(T) == sizeof(float)) {
      return static_cast<T>(bits() >> 8) * static_cast<T>(0x1p-24);
    } else {
      return static_cast<T>(bits64() >> 11) * static_cast<T>(0x1p-53);
    }
  }
  /// Standard normal, by Box and Muller; draws two uniforms for each number so that a number depends on its position
  /// only.
  template <typename T>
  T normal() {
    const T radius = std::sqrt(T(-2) * std::log(T(1) - uniform<T>()));
    return radius * std::cos(T(6.283185307179586) * uniform<T>());
  }
  /// Uniform in [0, bound), without bias: values past the largest multiple of `bound` are drawn again.
  uint64_t below(uint64_t bound) {
    const uint64_t limit = bound == 0 ? 0 : UINT64_MAX - UINT64_MAX % bound;
    uint64_t value = bits64();
    while (value >= limit && limit != 0) {
      value = bits64();
    }
    return bound == 0 ? value : value % bound;
  }

 private:
  void generate() {
    uint32_t c[4] = {static_cast<uint32_t>(state_.counter), static_cast<uint32_t>(state_.counter >> 32), 0, 0};
    uint32_t key[2] = {static_cast<uint32_t>(state_.seed), static_cast<uint32_t>(state_.seed >> 32)};
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53u} * c[0];
      const uint64_t b = uint64_t{0xCD9E8D57u} * c[2];
      const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
                                static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
      for (int i = 0; i < 4; ++i) {
        c[i] = next[i];
      }
      key[0] += 0x9E3779B9u;
      key[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; ++i) {
      block_[i] = c[i];
    }
    ++state_.counter;
  }

  runtime::RandomState& state_;
  uint32_t block_[4] = {};
  int position_ = 4;
};

}  // namespace et::kernels::portable
