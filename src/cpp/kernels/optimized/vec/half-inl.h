// float16 to float32 and back, compiled once a target. Included inside the target's pass only.
//
// For: vectors of float16 on every target. Highway emulates both conversions where the processor has no F16C (SSE4 and
// older), without infinity, NaN and numbers beyond the largest float16; here these are as on all other targets.

#if defined(ET_KERNELS_OPTIMIZED_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_HALF_INL_H_
#undef ET_KERNELS_OPTIMIZED_HALF_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_HALF_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#undef ET_HALF_IS_EMULATED
#if HWY_TARGET == HWY_SSE2 || HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4
#define ET_HALF_IS_EMULATED 1
#else
#define ET_HALF_IS_EMULATED 0
#endif

template <class D>
using HalfTag = hn::Rebind<hwy::float16_t, D>;

/// The floats that elements of 16 bits stand for.
template <class D>
HWY_INLINE hn::VFromD<D> half_to_float(D d, hn::VFromD<HalfTag<D>> half) {
  const auto value = hn::PromoteTo(d, half);
#if ET_HALF_IS_EMULATED
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> narrow;
  const auto bits = hn::PromoteTo(du, hn::BitCast(narrow, half));
  const auto is_special = hn::Eq(hn::And(bits, hn::Set(du, 0x7C00)), hn::Set(du, 0x7C00));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto rest = hn::Or(hn::Set(du, 0x7F800000), hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x03FF))));
  return hn::IfThenElse(hn::RebindMask(d, is_special), hn::BitCast(d, hn::Or(sign, rest)), value);
#else
  return value;
#endif
}

/// The elements of 16 bits nearest to floats, halves to even.
template <class D>
HWY_INLINE hn::VFromD<HalfTag<D>> float_to_half(D d, hn::VFromD<D> value) {
  const HalfTag<D> half;
#if ET_HALF_IS_EMULATED
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> narrow;
  const auto bits = hn::BitCast(du, value);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
  // 65520 and more round to infinity. Above infinity stands NaN.
  const auto is_large = hn::Ge(magnitude, hn::Set(du, 0x477FF000));
  const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7F800000));
  const auto sign = hn::ShiftRight<16>(hn::And(bits, hn::Set(du, 0x80000000)));
  const auto special = hn::Or(sign, hn::IfThenElse(is_nan, hn::Set(du, 0x7E00), hn::Set(du, 0x7C00)));
  const auto tame = hn::IfThenZeroElse(hn::RebindMask(d, is_large), value);
  const auto rounded = hn::PromoteTo(du, hn::BitCast(narrow, hn::DemoteTo(half, tame)));
  const hn::RebindToSigned<decltype(du)> di;
  return hn::BitCast(half, hn::DemoteTo(narrow, hn::BitCast(di, hn::IfThenElse(is_large, special, rounded))));
#else
  static_cast<void>(d);
  return hn::DemoteTo(half, value);
#endif
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
