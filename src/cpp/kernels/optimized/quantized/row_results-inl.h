// How the sums of rows and vectors of columns begin, what of a row they meet, and what they become, compiled once a
// target. Included inside its pass only.

#if defined(ET_KERNELS_OPTIMIZED_QUANTIZED_ROW_RESULTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_QUANTIZED_ROW_RESULTS_INL_H_
#undef ET_KERNELS_OPTIMIZED_QUANTIZED_ROW_RESULTS_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_QUANTIZED_ROW_RESULTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "kernels/optimized/quantized/integer_product.h"
#include "kernels/optimized/quantized/output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Four bytes for all lanes.
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<int32_t>> four(const T* from) {
  int32_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return hn::Set(hn::ScalableTag<int32_t>(), bits);
}

/// Sums of kRows rows and kVectors vectors of columns begin. `column` counts those of all groups, padded.
template <size_t kRows, size_t kVectors>
HWY_INLINE void start_tile(const IntegerProduct& p, size_t row, size_t column,
                           hn::Vec<hn::ScalableTag<int32_t>>* HWY_RESTRICT sums) {
  const hn::ScalableTag<int32_t> d;
#pragma GCC unroll 2
  for (size_t v = 0; v < kVectors; ++v) {
    const auto biases = hn::LoadU(d, p.biases + column + v * hn::Lanes(d));
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      // Only rows of bytes have biases here, and theirs are more by 128.
      sums[r * kVectors + v] =
          p.gives_floats ? hn::Mul(hn::Set(d, -(p.floats.zeros[(row + r) * p.floats.step] + 128)), biases) : biases;
    }
  }
}

/// Writes the results of a tile; `first` counts the columns of all groups as the output has them. The last vector has
/// `left` columns.
template <size_t kRows, size_t kVectors>
HWY_INLINE void put_tile(const IntegerProduct& p, size_t row, size_t column, size_t first, size_t left,
                         const hn::Vec<hn::ScalableTag<int32_t>>* HWY_RESTRICT sums) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<int8_t, decltype(d)> d_out;
  const hn::ScalableTag<float> df;
  const ToOutput<decltype(d)> to_output(d, p);
  const size_t lanes = hn::Lanes(d), pixel = p.groups * p.columns;
  const FloatResults& f = p.floats;
#pragma GCC unroll 2
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t at = row * pixel + first + v * lanes;
    const bool is_whole = v + 1 < kVectors || left >= lanes;
    const auto put = [&](auto results, auto d_of, auto* out)
                         HWY_ATTR { is_whole ? hn::StoreU(results, d_of, out) : hn::StoreN(results, d_of, out, left); };
    const float* const scales = p.scales + column + v * lanes;
    if (!p.gives_floats) {
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        put(to_output.bytes(sums[r * kVectors + v], scales), d_out, p.out + at + r * pixel);
      }
      continue;
    }
    const auto scale = hn::LoadU(df, scales), low = hn::Set(df, f.low), high = hn::Set(df, f.high);
    const auto bias =
        f.bias == nullptr ? hn::Zero(df) : hn::LoadN(df, f.bias + first + v * lanes, is_whole ? lanes : left);
    float* const out = f.out + at;
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const auto units = hn::Mul(hn::ConvertTo(df, sums[r * kVectors + v]), scale);
      const auto results = hn::Add(hn::Mul(units, hn::Set(df, f.scales[(row + r) * f.step])), bias);
      put(hn::Min(hn::Max(results, low), high), df, out + r * pixel);
    }
  }
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
