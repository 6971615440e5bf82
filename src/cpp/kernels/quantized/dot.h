/// Products of rows of small integers, as loops that compilers make multiply-and-add instructions of.
///
/// For: linear products of 8-bit integers, widened to 16 bits once. Not for: activations of 16 bits.
#pragma once

#include <cstdint>

namespace et::kernels::quantized {

/// Sum of a[i] * b[i], which wraps as int32 does. Requires |a[i]| <= 255 and |b[i]| <= 128.
inline int32_t dot(const int16_t* a, const int16_t* b, int64_t n) {
  constexpr int64_t kBlock = 16384;  // 16384 * 255 * 128 < 2^31
  uint32_t total = 0;
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t end = start + kBlock < n ? start + kBlock : n;
    int32_t sum = 0;
    for (int64_t i = start; i < end; ++i) {
      sum += static_cast<int32_t>(a[i]) * static_cast<int32_t>(b[i]);
    }
    total += static_cast<uint32_t>(sum);
  }
  return static_cast<int32_t>(total);
}

}  // namespace et::kernels::quantized
