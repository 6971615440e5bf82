// Scores become weights block by block of keys, with a running maximum and sum, compiled once a target. Included inside
// the target's pass only.
// Source: Milakov and Gimelshein 2018 (online softmax).

#if defined(ET_KERNELS_OPTIMIZED_ONLINE_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_ONLINE_SOFTMAX_INL_H_
#undef ET_KERNELS_OPTIMIZED_ONLINE_SOFTMAX_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_ONLINE_SOFTMAX_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "kernels/optimized/attention/attention.h"
#include "kernels/optimized/vec/softmax-inl.h"
#include "kernels/optimized/vec/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::attention::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// Which bytes are not 0, for the lanes of d.
template <class D, class Whole>
HWY_INLINE hn::Mask<D> are_not_zero(D d, Whole whole, const uint8_t* p, size_t left) {
  const hn::RebindToUnsigned<D> wide;
  const hn::Rebind<uint32_t, D> words;
  const auto v = hn::PromoteTo(words, load(hn::Rebind<uint8_t, D>(), whole, p, left));
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(wide, v), hn::Zero(wide)));
  } else {
    return hn::RebindMask(d, hn::Ne(v, hn::Zero(wide)));
  }
}

template <class T>
HWY_INLINE void start_rows(const AttentionRows<T>& rows) {
  for (size_t r = 0; r < rows.count; ++r) {
    rows.maximum[r] = -std::numeric_limits<T>::infinity();
    rows.sum[r] = T(0);
  }
}

/// Masks one row of scores, and turns it into weights: powers(scores, count, maximum, scale) makes them of
/// e^(scale * (score - maximum)) and gives their sum. Returns the factor by which earlier output and sum of the row
/// shrink.
template <class T, class Powers>
HWY_INLINE T weigh_row(const AttentionRows<T>& rows, T* scores, size_t row, size_t first_key, size_t count,
                       const Powers& powers) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();
  const size_t seen = rows.first + row + 1;
  const size_t visible = !rows.causal ? count : HWY_MIN(count, seen > first_key ? seen - first_key : 0);
  const AttentionMask<T>& mask = rows.mask;
  // What a mask is added to, and of which the largest is not the largest score, is scaled first.
  const bool is_scaled_later = mask.added == nullptr && rows.scale > 0;
  const V scale = hn::Set(d, is_scaled_later ? T(1) : rows.scale);
  const int64_t mask_at = static_cast<int64_t>(row) * mask.row + static_cast<int64_t>(first_key) * mask.column;
  if (mask.added != nullptr) {
    const T* const added = mask.added + mask_at;
    const V one = hn::Set(d, mask.column == 0 ? *added : T(0));  // one number for the row
    over_vectors<T>(visible, [&](auto whole, size_t j, size_t left) HWY_ATTR {
      const V more = mask.column == 0 ? one : load(d, whole, added + j, left);
      store(d, whole, hn::MulAdd(load(d, whole, scores + j, left), scale, more), scores + j, left);
    });
  } else if (mask.shown != nullptr || !is_scaled_later) {
    const uint8_t* const shown = mask.shown == nullptr ? nullptr : mask.shown + mask_at;
    const bool is_seen = shown == nullptr || mask.column != 0 || *shown != 0;  // one for the row
    over_vectors<T>(visible, [&](auto whole, size_t j, size_t left) HWY_ATTR {
      V s = hn::Mul(load(d, whole, scores + j, left), scale);
      if (shown != nullptr && mask.column != 0) {
        s = hn::IfThenElse(are_not_zero(d, whole, shown + j, left), s, hn::Set(d, kMinusInfinity));
      }
      store(d, whole, is_seen ? s : hn::Set(d, kMinusInfinity), scores + j, left);
    });
  }
  for (size_t j = visible; j < count; ++j) {
    scores[j] = kMinusInfinity;
  }
  const T before = rows.maximum[row];
  const T block = largest_number(scores, count);
  const T maximum = block > before ? block : before;
  const T subtracted = maximum == kMinusInfinity ? T(0) : maximum;  // a row that sees nothing yet
  const T later = is_scaled_later ? rows.scale : T(1);
  const T sum = powers(scores, count, subtracted, later);
  const T factor = before == kMinusInfinity ? T(0) : std::exp((before - subtracted) * later);
  rows.maximum[row] = maximum;
  rows.sum[row] = rows.sum[row] * factor + sum;
  return factor;
}

}  // namespace et::kernels::optimized::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
