// Rows of 16 bits and weights in pairs of the depth: integer_loops.h says when.
#include "kernels/optimized/quantized/integer_loops.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "kernels/optimized/quantized/pair_sums-inl.h"
#include "kernels/optimized/quantized/row_results-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_PAIR_LOOP_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_PAIR_LOOP_ONCE
namespace et::kernels::optimized::quantized {

/// Rows that are worth a copy of a panel in 16 bits; fewer widen its weights as they meet them.
constexpr size_t kRowsOfACopy = 16;

/// Numbers from a row to the next: a line more than whole ones, so that rows do not meet in one set of a cache.
inline size_t stride_of(const IntegerProduct& p) { return (p.depth() + 31) / 32 * 32 + 32; }
/// Behind the rows of a block: a window, and then the copy of a panel.
inline int16_t* panel_of(const IntegerProduct& p, const IntegerBlock& block) {
  return reinterpret_cast<int16_t*>(block.scratch) + block.rows * stride_of(p);
}

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// to[i] = from[i] - zero
HWY_INLINE void widen(const int8_t* from, size_t n, int16_t zero, int16_t* to) {
  const WideTag d;
  const hn::Rebind<int8_t, WideTag> db;
  const size_t lanes = hn::Lanes(d);
  const auto less = hn::Set(d, zero);
  if (n < lanes) {
    for (size_t i = 0; i < n; ++i) {
      to[i] = static_cast<int16_t>(from[i] - zero);
    }
    return;
  }
  for (size_t i = 0; i < n; i += lanes) {
    i = HWY_MIN(i, n - lanes);  // the last vector overlaps the one before
    hn::StoreU(hn::Sub(hn::PromoteTo(d, hn::LoadU(db, from + i)), less), d, to + i);
  }
}

/// The windows of a block's rows.
void PairRows(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t depth = p.depth(), stride = stride_of(p);
  auto* const rows = reinterpret_cast<int16_t*>(block.scratch);
  auto* const window = reinterpret_cast<int8_t*>(panel_of(p, block));
  WindowReader windows(p, block.group, block.first_row);
  for (size_t r = 0; r < block.rows; ++r) {
    const int8_t* from = p.in + (block.first_row + r) * depth;
    if (!p.has_rows()) {
      windows.read(window);
      from = window;
    }
    const int32_t zero = p.gives_floats ? p.floats.zeros[(block.first_row + r) * p.floats.step] : p.input_zero_point;
    widen(from, depth, static_cast<int16_t>(zero), rows + r * stride);
    std::fill(rows + r * stride + depth, rows + r * stride + depth + depth % 2, int16_t{0});
  }
}

/// Rows of the output from `row` on, whose windows are x, times kVectors vectors of columns (put_tile), of which the
/// last `left` columns count.
template <size_t kRows, size_t kVectors, class W>
HWY_INLINE void multiply_tile(const IntegerProduct& p, const int16_t* x, const W* weights, size_t row, size_t column,
                              size_t first, size_t left) {
  hn::Vec<SumTag> sums[kRows * kVectors];
  start_tile<kRows, kVectors>(p, row, column, sums);
  add_pairs<kRows, kVectors>(x, stride_of(p), p.pairs(), weights, sums);
  put_tile<kRows, kVectors>(p, row, column, first, left, sums);
}

/// All rows of a block times a panel, in as few tiles as possible, whose heights differ by one at most.
template <size_t kVectors, class W>
void multiply_panel(const IntegerProduct& p, const IntegerBlock& block, const W* weights, size_t column, size_t first,
                    size_t left) {
  const auto* const rows = reinterpret_cast<const int16_t*>(block.scratch);
  for_even_tiles<kPairTileRows>(block.rows, [&](auto height, size_t row) HWY_ATTR {
    multiply_tile<decltype(height)::value, kVectors>(p, rows + row * stride_of(p), weights, block.first_row + row,
                                                     column, first, left);
  });
}

template <size_t kVectors>
void multiply_panel(const IntegerProduct& p, const IntegerBlock& block, const int8_t* weights, size_t column,
                    size_t first, size_t left) {
  if (block.rows < kRowsOfACopy) {
    multiply_panel<kVectors, int8_t>(p, block, weights, column, first, left);
    return;
  }
  widen(weights, p.pairs() * 2 * kVectors * hn::Lanes(SumTag()), 0, panel_of(p, block));
  multiply_panel<kVectors, int16_t>(p, block, panel_of(p, block), column, first, left);
}

/// Panels [begin, end) of a block's group.
void PairPanels(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t depth = 2 * p.pairs();
  for_panels(p, block, [&](auto vectors, size_t column, size_t first, size_t left) HWY_ATTR {
    multiply_panel<decltype(vectors)::value>(p, block, reinterpret_cast<const int8_t*>(p.packed) + column * depth,
                                             column, block.group * p.columns + first, left);
  });
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(PairPanels);
HWY_EXPORT(PairRows);

size_t pair_row_nbytes(const IntegerProduct& p) { return stride_of(p) * sizeof(int16_t); }
size_t pair_block_nbytes(const IntegerProduct& p) {
  return stride_of(p) * kPanelVectors * integer_lanes() * sizeof(int16_t);
}
void make_pair_rows(const IntegerProduct& p, const IntegerBlock& block) { HWY_DYNAMIC_DISPATCH(PairRows)(p, block); }
void multiply_pairs(const IntegerProduct& p, const IntegerBlock& block) { HWY_DYNAMIC_DISPATCH(PairPanels)(p, block); }

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
