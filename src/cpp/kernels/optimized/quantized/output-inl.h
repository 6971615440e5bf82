// How sums of integer convolutions become the output's integers, compiled once a target. Included inside its pass only.

#if defined(ET_KERNELS_OPTIMIZED_QUANTIZED_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_QUANTIZED_OUTPUT_INL_H_
#undef ET_KERNELS_OPTIMIZED_QUANTIZED_OUTPUT_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_QUANTIZED_OUTPUT_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/optimized/quantized/convolution.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Sums in units of the output's scale, as its integers. What is bounded to less than 2^22 becomes an integer, rounded
/// to the nearest even one, when 1.5 * 2^23 is added: the float's last bits.
template <class D, class V>
HWY_INLINE V to_output(D d, const QuantizedConvolution& w, V sum, const float* scales) {
  const hn::RebindToFloat<D> df;
  constexpr float kShift = 12582912.0f;
  constexpr int32_t kShiftBits = 0x4B400000;
  const auto units = hn::Mul(hn::ConvertTo(df, sum), hn::LoadU(df, scales));
  const auto bounded = hn::Min(hn::Max(units, hn::Set(df, w.low)), hn::Set(df, w.high));
  return hn::Sub(hn::BitCast(d, hn::Add(bounded, hn::Set(df, kShift))), hn::Set(d, kShiftBits - w.zero_point));
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
