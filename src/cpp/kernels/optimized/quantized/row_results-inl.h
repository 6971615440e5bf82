// How the sums of a row and a vector of columns begin, and what they become, compiled once a target. Included inside
// its pass only.

#if defined(ET_KERNELS_OPTIMIZED_QUANTIZED_ROW_RESULTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_QUANTIZED_ROW_RESULTS_INL_H_
#undef ET_KERNELS_OPTIMIZED_QUANTIZED_ROW_RESULTS_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_QUANTIZED_ROW_RESULTS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/optimized/quantized/integer_product.h"
#include "kernels/optimized/quantized/output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// `column` counts those of all groups, padded.
HWY_INLINE hn::Vec<hn::ScalableTag<int32_t>> start_of_row(const IntegerProduct& p, size_t row, size_t column) {
  const hn::ScalableTag<int32_t> d;
  const auto biases = hn::LoadU(d, p.biases + column);
  // Only rows of bytes have biases here, and theirs are more by 128.
  return !p.gives_floats ? biases : hn::Neg(hn::Mul(hn::Set(d, p.floats.zeros[row * p.floats.step] + 128), biases));
}

/// Writes `count` results of a row; `first` counts the columns of all groups as the output has them.
HWY_INLINE void put_results(const IntegerProduct& p, size_t row, size_t column, size_t first, size_t count,
                            hn::Vec<hn::ScalableTag<int32_t>> sum) {
  const hn::ScalableTag<int32_t> d;
  const size_t place = row * p.groups * p.columns + first;
  const auto put = [&](auto results, auto d_out, auto* out) HWY_ATTR {
    count >= hn::Lanes(d) ? hn::StoreU(results, d_out, out) : hn::StoreN(results, d_out, out, count);
  };
  if (!p.gives_floats) {
    const hn::Rebind<int8_t, decltype(d)> d_out;
    put(hn::DemoteTo(d_out, to_output(d, p, sum, p.scales + column)), d_out, p.out + place);
    return;
  }
  const hn::ScalableTag<float> df;
  const auto units = hn::Mul(hn::ConvertTo(df, sum), hn::LoadU(df, p.scales + column));
  const auto bias = p.floats.bias == nullptr ? hn::Zero(df) : hn::LoadN(df, p.floats.bias + first, count);
  const auto results = hn::Add(hn::Mul(units, hn::Set(df, p.floats.scales[row * p.floats.step])), bias);
  put(hn::Min(hn::Max(results, hn::Set(df, p.floats.low)), hn::Set(df, p.floats.high)), df, p.floats.out + place);
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
