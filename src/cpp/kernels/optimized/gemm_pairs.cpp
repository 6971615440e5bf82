#include "kernels/optimized/gemm_pairs.h"

#define ET_TARGETS_WITH_BFLOAT16
#include "kernels/optimized/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/gemm_pairs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/gemm_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

#if HWY_NATIVE_DOT_BF16
namespace hn = hwy::HWY_NAMESPACE;

struct PairsTile {
  template <size_t R>
  static HWY_INLINE void multiply(const BFloat16* left, const BFloat16* right, size_t depth, float* out,
                                  size_t out_stride, bool accumulate) {
    const hn::ScalableTag<float> d;
    const hn::Repartition<hwy::bfloat16_t, decltype(d)> dh;
    const hn::RebindToUnsigned<decltype(d)> du;
    using V = hn::Vec<decltype(d)>;
    const size_t lanes = hn::Lanes(d);
    const auto* b = reinterpret_cast<const hwy::bfloat16_t*>(right);
    V sum0[R], sum1[R];
    V unused = hn::Zero(d);
#pragma GCC unroll 16
    for (size_t r = 0; r < R; ++r) {
      sum0[r] = hn::Zero(d);
      sum1[r] = hn::Zero(d);
    }
    for (size_t k = 0; k < depth; k += 2) {
      const auto b0 = hn::LoadU(dh, b);
      const auto b1 = hn::LoadU(dh, b + 2 * lanes);
#pragma GCC unroll 16
      for (size_t r = 0; r < R; ++r) {
        uint32_t pair;
        hwy::CopyBytes<sizeof(pair)>(left + 2 * r, &pair);
        const auto a = hn::BitCast(dh, hn::Set(du, pair));
        sum0[r] = hn::ReorderWidenMulAccumulate(d, a, b0, sum0[r], unused);
        sum1[r] = hn::ReorderWidenMulAccumulate(d, a, b1, sum1[r], unused);
      }
      left += 2 * kTileRows;
      b += 4 * lanes;
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < R; ++r) {
      float* const to = out + r * out_stride;
      if (accumulate) {
        sum0[r] = hn::Add(sum0[r], hn::LoadU(d, to));
        sum1[r] = hn::Add(sum1[r], hn::LoadU(d, to + lanes));
      }
      hn::StoreU(sum0[r], d, to);
      hn::StoreU(sum1[r], d, to + lanes);
    }
  }
};

void MultiplyPairsBlock(const GemmBlock<float, BFloat16>& block) { multiply_block<PairsTile>(block); }
MultiplyPairs PairsFunction() { return &MultiplyPairsBlock; }
#else
MultiplyPairs PairsFunction() { return nullptr; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(PairsFunction);

MultiplyPairs pairs_function() { return HWY_DYNAMIC_DISPATCH(PairsFunction)(); }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
