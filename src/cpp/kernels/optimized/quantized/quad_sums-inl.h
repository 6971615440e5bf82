// Products of four bytes added in 32 bits, compiled once a target. Included inside its pass only.

#if defined(ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_SUMS_INL_H_
#undef ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_SUMS_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include "runtime/host/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Code for AVX2 that takes AVX-VNNI's instruction where has_avx_vnni() says that it is there. Highway has no target
/// with it.
constexpr bool kMayHaveAvxVnni = HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2;
/// Whether one instruction does add_quads() on this processor.
HWY_INLINE bool has_quad_sums() {
  return (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL) || (kMayHaveAvxVnni && runtime::has_avx_vnni());
}

/// sum[i] += Σ_j bytes[4 i + j] · integers[4 i + j], which wraps.
template <bool kAvxVnni, class V>
HWY_INLINE V add_quads(V sum, hn::Vec<hn::Repartition<uint8_t, hn::DFromV<V>>> bytes,
                       hn::Vec<hn::Repartition<int8_t, hn::DFromV<V>>> integers) {
#if HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
  if constexpr (kAvxVnni) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(bytes.raw), "x"(integers.raw));  // NOLINT
    return sum;
  }
#endif
  return hn::SumOfMulQuadAccumulate(hn::DFromV<V>(), bytes, integers, sum);
}

/// Copies bytes, with the bits of `flip` changed: those of int8 become unsigned, more by 128. `to` may be `from`.
HWY_INLINE void copy_flipped(uint8_t* to, const void* from, size_t nbytes, uint8_t flip) {
  const hn::ScalableTag<uint8_t> d;
  const auto more = hn::Set(d, flip);
  const auto* const bytes = static_cast<const uint8_t*>(from);
  const size_t whole = nbytes - nbytes % hn::Lanes(d);
  for (size_t i = 0; i < whole; i += hn::Lanes(d)) {
    hn::StoreU(hn::Xor(hn::LoadU(d, bytes + i), more), d, to + i);
  }
  const size_t left = nbytes - whole;
  hn::StoreN(hn::Xor(hn::LoadN(d, bytes + whole, left), more), d, to + whole, left);
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
