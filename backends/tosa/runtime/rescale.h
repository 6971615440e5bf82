/// Scaling of integers by a multiplier and a right shift, as TOSA defines it.
///
/// For: RESCALE, MUL and AVG_POOL2D. All results are exact: what the definition calls unpredictable wraps here.
/// Source: TOSA 1.0 specification, apply_scale_32, apply_scale_16, reciprocal_scale.
#pragma once

#include <cstdint>

namespace et::backends::tosa {

inline constexpr int32_t kMinShift = 2, kMaxShift = 62;

/// (value · multiplier + 2^(shift - 1)) >> shift; with `twice` and a shift over 31, 2^30 away from zero comes first.
inline int64_t apply_scale(int64_t value, int32_t multiplier, int32_t shift, bool twice = false) {
  uint64_t round = uint64_t{1} << (shift - 1);
  if (twice && shift > 31) {
    round += value >= 0 ? uint64_t{1} << 30 : -(uint64_t{1} << 30);
  }
  const uint64_t product = static_cast<uint64_t>(value) * static_cast<uint64_t>(int64_t{multiplier});
  return static_cast<int64_t>(product + round) >> shift;
}

struct Scale {
  int32_t multiplier, shift;
};

/// 1 / count, count > 0.
inline Scale reciprocal_scale(uint32_t count) {
  const int32_t k = count == 1 ? 0 : 32 - __builtin_clz(count - 1);
  const uint64_t numerator = ((uint64_t{1} << 30) + 1) << k;
  return {static_cast<int32_t>(numerator / count), 30 + k};
}

inline int64_t clamped(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

}  // namespace et::backends::tosa
