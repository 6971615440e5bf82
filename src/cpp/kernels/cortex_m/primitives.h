/// What the loops of this folder are made of: products of 8-bit integers, and the step from a sum to an integer of the
/// result. One of three forms, by the core the build is for: MVE (M55), DSP (M4, M7, M33), and plain C++.
///
///     widen(bytes, n, zero_point, 8, values);         // once for a column of inputs; the second goes to values + 4
///     dot_2x2(values, row0, row1, n, sums);           // sums of two columns with two rows of weights
///     out[i] = output.clamp(to_units(sums[0], scale));
///
/// Sums wrap as int32 does. Rounding is that of kernels/quantized/affine.h, bit for bit.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/quantized/affine.h"

#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
#define ET_CORTEX_M_MVE 1
#include <arm_mve.h>
#elif defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32)
#define ET_CORTEX_M_DSP 1
#include <arm_acle.h>
#endif

namespace et::kernels::cortex_m {

using quantized::multiply_add;
using quantized::Requantizer;

/// The integers of a result.
struct Output {
  int32_t zero_point, low, high;  ///< bounds are less the zero point

  explicit Output(const Requantizer& r)
      : zero_point(r.zero_point()), low(r.min() - r.zero_point()), high(r.max() - r.zero_point()) {}
  int8_t clamp(int32_t units) const {
    units = units < low ? low : units;
    units = units > high ? high : units;
    return static_cast<int8_t>(units + zero_point);
  }
};

/// round_to_even(float(sum) * scale) for every float, as floats compute it; what lies beyond 8 bits comes out as ±512.
int32_t exact_units(int32_t sum, float scale);

/// input * weight / output in integers, for cores without floating point: both roundings of floats, bit for bit. It may
/// be 0 below 2^-33, which makes 0 of every sum, and is NaN where floats leave their normal numbers.
float scale_in_integers(float input, float weight, float output);

/// exact_units in integers.
///
/// The product is taken to 20 bits behind the point. Both roundings of floats together, of the sum and of the product,
/// move a result below 256 by 2^-15 at most. Only what lies so near to the middle between two integers may round
/// otherwise, and is left to floats.
inline int32_t units_in_integers(int32_t sum, float scale) {
  constexpr uint32_t kHalf = 1u << 19, kNear = 64;  // of 2^-20: 2^-15 is 32 of them
  const uint32_t bits = bits_of(scale);
  const uint32_t left = (bits >> 23) - 105u;  // scale = multiplier * 2^(left - 52)
  if (__builtin_expect(left <= 30, 1)) {
    const uint32_t limit = uint32_t{INT32_MAX} >> left;
    if (__builtin_expect(static_cast<uint32_t>(sum) + limit > 2 * limit, 0)) {
      return sum < 0 ? -512 : 512;
    }
    auto multiplier = static_cast<int32_t>((bits << 7 | 0x40000000u) & 0x7FFFFFFFu);
    __asm("" : "+r"(multiplier));  // else GCC, which sees that it is positive, multiplies in four instructions
    const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(sum) << left);
    const auto up = static_cast<uint32_t>((int64_t{shifted} * multiplier) >> 32) + kHalf;
    if (__builtin_expect((up + kNear) << 12 >= 2 * kNear << 12, 1)) {
      return static_cast<int32_t>(up) >> 20;
    }
  }
  return exact_units(sum, scale);
}

#if defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
constexpr bool kUnitsAreShort = true;
#else
constexpr bool kUnitsAreShort = false;  // 26 instructions: loops have them once
#endif

/// round_to_even(float(sum) * scale); what lies beyond 8 bits stays beyond.
inline int32_t to_units(int32_t sum, float scale) {
#if defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
  float units = static_cast<float>(sum) * scale;
  __asm("vcvtr.s32.f32 %0, %0" : "+t"(units));  // rounds as the processor is set, to even; saturates
  int32_t result;
  std::memcpy(&result, &units, sizeof(result));
  return result;
#else
  return units_in_integers(sum, scale);
#endif
}

/// Wraps as int32 does.
inline int32_t sum_of(const int8_t* values, int32_t n) {
  int32_t sum = 0;
#if defined(ET_CORTEX_M_MVE)
  __asm volatile(
      "wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "vldrb.8 q0, [%[w]], #16\n"
      "vaddva.s8 %[sum], q0\n"
      "letp lr, 2b\n"
      "1:\n"
      : [sum] "+Te"(sum), [w] "+r"(values)
      : [n] "r"(n)
      : "q0", "lr", "memory");
#else
  for (int32_t i = 0; i < n; ++i) {
    sum += values[i];
  }
#endif
  return sum;
}

/// A few bytes, where a call of the C library would take longer than they do.
inline void copy_bytes(const int8_t* from, int32_t n, int8_t* to) {
  for (; n >= 4; n -= 4, from += 4, to += 4) {
    std::memcpy(to, from, 4);
  }
  for (; n > 0; --n) {
    *to++ = *from++;
  }
}

/// input * weight / output, as floats compute it; on cores without floating point in a third of the time.
inline float product_scale(float input, float weight, float output) {
#if defined(__ARM_FP) && (__ARM_FP & 4)
  return input * weight / output;
#else
  return scale_in_integers(input, weight, output);
#endif
}

#if defined(ET_CORTEX_M_MVE)

/// A column holds inputs as they are: its zero point is in the start of the sums.
using Value = int8_t;
constexpr int32_t kColumns = 4;
constexpr bool kHoldsZeroPoint = true;

/// Four sums to 8-bit integers in 32 bits.
class VectorOutput {
 public:
  explicit VectorOutput(const Output& o)
      : low_(vdupq_n_s32(o.low)), high_(vdupq_n_s32(o.high)), zero_point_(o.zero_point) {}
  int32x4_t operator()(int32x4_t sums, float scale) const { return finish(vmulq_n_f32(vcvtq_f32_s32(sums), scale)); }
  int32x4_t operator()(int32x4_t sums, float32x4_t scales) const {
    return finish(vmulq_f32(vcvtq_f32_s32(sums), scales));
  }

 private:
  int32x4_t finish(float32x4_t units) const {
    const int32x4_t rounded = vcvtnq_s32_f32(units);
    return vaddq_n_s32(vminq_s32(vmaxq_s32(rounded, low_), high_), zero_point_);
  }
  int32x4_t low_, high_;
  int32_t zero_point_;
};

#else

/// A column holds inputs less their zero point, in groups of four; groups of two columns alternate.
using Value = int16_t;
constexpr int32_t kColumns = 2;
constexpr bool kHoldsZeroPoint = false;

#if defined(ET_CORTEX_M_DSP)

inline int32_t load_word(const void* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}
/// Bytes 1 and 3 of a word, widened. (Bytes 0 and 2: __sxtb16.)
inline int16x2_t odd_bytes(int32_t word) {
  int16x2_t pair;
  __asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
}

/// Four inputs: those at 0 and 2 stand before those at 1 and 3, as weights come out when they are widened.
inline void widen_four(const int8_t* from, int32_t zero_point, Value* to) {
  const auto less = static_cast<int32_t>(static_cast<uint32_t>(-zero_point & 0xFFFF) * 0x10001u);
  const int32_t word = load_word(from);
  const int32_t even = __sadd16(__sxtb16(word), less), odd = __sadd16(odd_bytes(word), less);
  std::memcpy(to, &even, sizeof(even));
  std::memcpy(to + 2, &odd, sizeof(odd));
}

/// Adds groups of four terms of two columns with two rows to sums [row, column]. All of a core's registers are in use.
[[gnu::noinline]] inline void dot_groups(const Value* x, const Value* end, const int8_t* w0, const int8_t* w1,
                                         int32_t* sums) {
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  int32_t a, b, c, d, even, odd;
  __asm volatile(
      "1:\n"
      "ldr %[odd], [%[w0]], #4\n"
      "ldrd %[a], %[b], [%[x]], #16\n"
      "ldrd %[c], %[d], [%[x], #-8]\n"
      "sxtb16 %[even], %[odd]\n"
      "sxtb16 %[odd], %[odd], ror #8\n"
      "smlad %[s0], %[even], %[a], %[s0]\n"
      "smlad %[s1], %[even], %[c], %[s1]\n"
      "smlad %[s0], %[odd], %[b], %[s0]\n"
      "smlad %[s1], %[odd], %[d], %[s1]\n"
      "ldr %[odd], [%[w1]], #4\n"
      "sxtb16 %[even], %[odd]\n"
      "sxtb16 %[odd], %[odd], ror #8\n"
      "smlad %[s2], %[even], %[a], %[s2]\n"
      "smlad %[s3], %[even], %[c], %[s3]\n"
      "cmp %[x], %[end]\n"
      "smlad %[s2], %[odd], %[b], %[s2]\n"
      "smlad %[s3], %[odd], %[d], %[s3]\n"
      "bne 1b\n"
      : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [x] "+r"(x), [w0] "+r"(w0), [w1] "+r"(w1),
        [a] "=&r"(a), [b] "=&r"(b), [c] "=&r"(c), [d] "=&r"(d), [even] "=&r"(even), [odd] "=&r"(odd)
      : [end] "r"(end)
      : "cc", "memory");
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

/// Where widening leaves input i of n.
inline int32_t place_of(int32_t i, int32_t n) { return i < (n & ~3) && (i % 4 == 1 || i % 4 == 2) ? i ^ 3 : i; }

/// The same of one column with four rows at steps of `depth`.
[[gnu::noinline]] inline void dot_groups(const Value* x, const Value* end, const int8_t* w, int32_t depth,
                                         int32_t* sums) {
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  int32_t a, b, even, odd;
  const int8_t* w3 = w + 3 * depth;
  __asm volatile(
      "1:\n"
      "ldrd %[a], %[b], [%[x]], #8\n"
      "ldr %[odd], [%[w], %[depth]]\n"
      "sxtb16 %[even], %[odd]\n"
      "sxtb16 %[odd], %[odd], ror #8\n"
      "smlad %[s1], %[even], %[a], %[s1]\n"
      "smlad %[s1], %[odd], %[b], %[s1]\n"
      "ldr %[odd], [%[w], %[depth], lsl #1]\n"
      "sxtb16 %[even], %[odd]\n"
      "sxtb16 %[odd], %[odd], ror #8\n"
      "smlad %[s2], %[even], %[a], %[s2]\n"
      "smlad %[s2], %[odd], %[b], %[s2]\n"
      "ldr %[odd], [%[w]], #4\n"
      "sxtb16 %[even], %[odd]\n"
      "sxtb16 %[odd], %[odd], ror #8\n"
      "smlad %[s0], %[even], %[a], %[s0]\n"
      "smlad %[s0], %[odd], %[b], %[s0]\n"
      "ldr %[odd], [%[w3]], #4\n"
      "sxtb16 %[even], %[odd]\n"
      "sxtb16 %[odd], %[odd], ror #8\n"
      "cmp %[x], %[end]\n"
      "smlad %[s3], %[even], %[a], %[s3]\n"
      "smlad %[s3], %[odd], %[b], %[s3]\n"
      "bne 1b\n"
      : [s0] "+r"(s0), [s1] "+r"(s1), [s2] "+r"(s2), [s3] "+r"(s3), [x] "+r"(x), [w] "+r"(w), [w3] "+r"(w3),
        [a] "=&r"(a), [b] "=&r"(b), [even] "=&r"(even), [odd] "=&r"(odd)
      : [end] "r"(end), [depth] "r"(depth)
      : "cc", "memory");
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

#else

inline void widen_four(const int8_t* from, int32_t zero_point, Value* to) {
  for (int32_t i = 0; i < 4; ++i) {
    to[i] = static_cast<Value>(from[i] - zero_point);
  }
}

/// Adds groups of four terms of two columns with two rows to sums [row, column].
[[gnu::noinline]] inline void dot_groups(const Value* x, const Value* end, const int8_t* w0, const int8_t* w1,
                                         int32_t* sums) {
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  const auto step = [&](int32_t i) {
    const int32_t a = w0[i], b = w1[i], c = x[i / 4 * 4 + i], d = x[i / 4 * 4 + i + 4];
    s0 = multiply_add(s0, a, c), s1 = multiply_add(s1, a, d);
    s2 = multiply_add(s2, b, c), s3 = multiply_add(s3, b, d);
  };
  if ((end - x) % 16 != 0) {
    step(0), step(1), step(2), step(3);
    x += 8, w0 += 4, w1 += 4;
  }
  for (; x != end; x += 16, w0 += 8, w1 += 8) {
    step(0), step(1), step(2), step(3);
    step(4), step(5), step(6), step(7);
  }
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

inline int32_t place_of(int32_t i, int32_t) { return i; }

/// The same of one column with four rows at steps of `depth`.
[[gnu::noinline]] inline void dot_groups(const Value* x, const Value* end, const int8_t* w0, int32_t depth,
                                         int32_t* sums) {
  int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
  const int8_t *w1 = w0 + depth, *w2 = w1 + depth, *w3 = w2 + depth;
  const auto step = [&](int32_t i) {
    const int32_t value = x[i];
    s0 = multiply_add(s0, value, w0[i]), s1 = multiply_add(s1, value, w1[i]);
    s2 = multiply_add(s2, value, w2[i]), s3 = multiply_add(s3, value, w3[i]);
    __asm volatile("" ::: "memory");  // else GCC goes row by row, with more values than a core has registers
  };
  if ((end - x) % 8 != 0) {
    step(0), step(1), step(2), step(3);
    x += 4, w0 += 4, w1 += 4, w2 += 4, w3 += 4;
  }
  for (; x != end; x += 8, w0 += 8, w1 += 8, w2 += 8, w3 += 8) {
    step(0), step(1), step(2), step(3);
    step(4), step(5), step(6), step(7);
  }
  sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

#endif

/// Values of columns of `depth` inputs.
constexpr int32_t whole_groups(int32_t depth) { return (depth + 3) / 4 * 4; }

/// `step`: values from a group to the next one.
inline void widen(const int8_t* from, int32_t n, int32_t zero_point, int32_t step, Value* to) {
  for (; n >= 4; n -= 4, from += 4, to += step) {
    widen_four(from, zero_point, to);
  }
  for (int32_t i = 0; i < n; ++i) {
    to[i] = static_cast<Value>(from[i] - zero_point);
  }
}

/// Adds to sums [row, column].
inline void dot_2x2(const Value* x, const int8_t* w0, const int8_t* w1, int32_t n, int32_t* sums) {
  const int32_t whole = n & ~3;
  if (whole > 0) {
    dot_groups(x, x + 2 * whole, w0, w1, sums);
  }
  for (int32_t i = 0; i < (n & 3); ++i) {
    const Value* const y = x + 2 * whole + i;
    sums[0] = multiply_add(sums[0], y[0], w0[whole + i]), sums[1] = multiply_add(sums[1], y[4], w0[whole + i]);
    sums[2] = multiply_add(sums[2], y[0], w1[whole + i]), sums[3] = multiply_add(sums[3], y[4], w1[whole + i]);
  }
}

inline int32_t dot_1x1(const Value* x, const int8_t* w, int32_t n, int32_t sum) {
  for (int32_t i = 0; i < n; ++i) {
    sum = multiply_add(sum, x[place_of(i, n)], w[i]);
  }
  return sum;
}

/// The same of one column with four rows at steps of n.
inline void dot_1x4(const Value* x, const int8_t* w, int32_t n, int32_t* sums) {
  const int32_t whole = n & ~3;
  if (whole > 0) {
    dot_groups(x, x + whole, w, n, sums);
  }
  for (int32_t i = whole; i < n; ++i) {
    for (int32_t row = 0; row < 4; ++row) {
      sums[row] = multiply_add(sums[row], x[i], w[row * n + i]);
    }
  }
}

#endif

}  // namespace et::kernels::cortex_m
