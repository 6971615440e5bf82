// Transpose of 4 x 4 floats in 16-byte registers, compiled once a target. Included inside the target's pass only.

#if defined(ET_KERNELS_OPTIMIZED_TRANSPOSE4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_TRANSPOSE4_INL_H_
#undef ET_KERNELS_OPTIMIZED_TRANSPOSE4_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_TRANSPOSE4_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to[c][r] = from[r][c] for 4 x 4 elements of 4 bytes. Strides in bytes.
HWY_INLINE void transpose4(const char* from, char* to, int64_t from_stride, int64_t to_stride) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> d64;
  const auto a = hn::LoadU(d, reinterpret_cast<const float*>(from));
  const auto b = hn::LoadU(d, reinterpret_cast<const float*>(from + from_stride));
  const auto c = hn::LoadU(d, reinterpret_cast<const float*>(from + 2 * from_stride));
  const auto e = hn::LoadU(d, reinterpret_cast<const float*>(from + 3 * from_stride));
  const auto ab0 = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
  const auto ab1 = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ce0 = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
  const auto ce1 = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, ab0, ce0)), d, reinterpret_cast<float*>(to));
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, ab0, ce0)), d, reinterpret_cast<float*>(to + to_stride));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, ab1, ce1)), d, reinterpret_cast<float*>(to + 2 * to_stride));
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, ab1, ce1)), d, reinterpret_cast<float*>(to + 3 * to_stride));
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
