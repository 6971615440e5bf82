// Limits that leave what is no number, compiled once a target. Included inside its pass only.

#if defined(ET_KERNELS_OPTIMIZED_CLAMP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_CLAMP_INL_H_
#undef ET_KERNELS_OPTIMIZED_CLAMP_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_CLAMP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x within [low, high], NaN where x is. Highway leaves open which operand Max and Min give beside NaN: x86's instructions give the
/// second, Arm's the number.
template <class V>
HWY_INLINE V clamp_keeping_nan(V x, V low, V high) {
#if HWY_ARCH_X86
  return hn::Min(high, hn::Max(low, x));
#else
  const V raised = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(raised, high), high, raised);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#endif
