// How sums of integer convolutions become the output's integers, compiled once a target. Included inside its pass only.

#if defined(ET_KERNELS_OPTIMIZED_QUANTIZED_OUTPUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_QUANTIZED_OUTPUT_INL_H_
#undef ET_KERNELS_OPTIMIZED_QUANTIZED_OUTPUT_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_QUANTIZED_OUTPUT_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/optimized/quantized/convolution.h"
#include "kernels/optimized/vec/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Sums in units of the output's scale, as its integers. What is bounded to less than 2^22 becomes an integer, rounded
/// to the nearest even one, when 1.5 * 2^23 is added: the float's last bits. Made once for many sums: after a byte is
/// stored a compiler reads all numbers of a product again.
template <class D>
class ToOutput {
 public:
  HWY_INLINE ToOutput(D d, const QuantizedConvolution& w)
      : low_(hn::Set(F(), w.low)), high_(hn::Set(F(), w.high)), bits_(hn::Set(d, kShiftBits - w.zero_point)) {}

  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> sum, const float* scales) const {
    const auto units = hn::Mul(hn::ConvertTo(F(), sum), hn::LoadU(F(), scales));
    const auto bounded = hn::Min(hn::Max(units, low_), high_);
    return hn::Sub(hn::BitCast(D(), hn::Add(bounded, hn::Set(F(), kShift))), bits_);
  }
  /// The same as bytes.
  HWY_INLINE hn::Vec<hn::Rebind<int8_t, D>> bytes(hn::Vec<D> sum, const float* scales) const {
    return optimized::HWY_NAMESPACE::narrow(hn::Rebind<int8_t, D>(), (*this)(sum, scales));
  }

 private:
  using F = hn::RebindToFloat<D>;
  static constexpr float kShift = 12582912.0f;
  static constexpr int32_t kShiftBits = 0x4B400000;

  hn::Vec<F> low_, high_;
  hn::Vec<D> bits_;
};

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
