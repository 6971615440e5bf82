// Sums of products of 16 bits in pairs of the depth, compiled once a target. Included inside its pass only.

#if defined(ET_KERNELS_OPTIMIZED_QUANTIZED_PAIR_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_QUANTIZED_PAIR_SUMS_INL_H_
#undef ET_KERNELS_OPTIMIZED_QUANTIZED_PAIR_SUMS_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_QUANTIZED_PAIR_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "base/rounding.h"
#include "kernels/optimized/quantized/integer_loops.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using SumTag = hn::ScalableTag<int32_t>;
using WideTag = hn::Repartition<int16_t, SumTag>;

/// Sums, a row's pair, two vectors of weights and a product stand in registers; with one row more of AVX2's sixteen a
/// sum would go through memory.
constexpr size_t kPairTileRows = hn::MaxLanes(SumTag()) >= 16 ? 8 : 5;

HWY_INLINE hn::Vec<WideTag> load_weights(const int8_t* from) {
  return hn::PromoteTo(WideTag(), hn::LoadU(hn::Rebind<int8_t, WideTag>(), from));
}
HWY_INLINE hn::Vec<WideTag> load_weights(const int16_t* from) { return hn::LoadU(WideTag(), from); }

/// Adds the products of kRows rows, `stride` numbers apart, and kVectors vectors of columns, [pairs][columns][2].
template <size_t kRows, size_t kVectors, class W>
HWY_INLINE void add_pairs(const int16_t* x, size_t stride, size_t pairs, const W* weights,
                          hn::Vec<SumTag>* HWY_RESTRICT sums) {
  const SumTag d;
  const size_t lanes = hn::Lanes(d);
  for (size_t k = 0; k < pairs; ++k) {
    hn::Vec<WideTag> w[kVectors];
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      w[v] = load_weights(weights + 2 * v * lanes);
    }
    weights += 2 * kVectors * lanes;
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, x + r * stride, sizeof(pair));
      const auto both = hn::BitCast(WideTag(), hn::Set(d, pair));
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        auto& sum = sums[r * kVectors + v];
        sum = hn::Add(sum, hn::WidenMulPairwiseAdd(d, both, w[v]));
      }
    }
    x += 2;
  }
}

/// Calls body(vectors, column, first, left) for panels [begin, end) of a block's group. `vectors` is the type of their
/// number. `column` is the first one among the padded columns of all groups, `first` that among the group's. `left`
/// columns stand in the last vector.
template <class Body>
HWY_INLINE void for_panels(const IntegerProduct& p, const IntegerBlock& block, const Body& body) {
  const size_t lanes = hn::Lanes(SumTag()), wide = kPanelVectors * lanes;
  const size_t padded = round_up(p.columns, lanes);
  for (size_t panel = block.begin; panel < block.end; ++panel) {
    const size_t first = panel * wide, count = HWY_MIN(wide, p.columns - first);
    const size_t column = block.group * padded + first;
    if (count > lanes) {
      body(std::integral_constant<size_t, 2>(), column, first, count - lanes);
    } else {
      body(std::integral_constant<size_t, 1>(), column, first, count);
    }
  }
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
