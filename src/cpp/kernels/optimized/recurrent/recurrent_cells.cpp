#include "kernels/optimized/recurrent/recurrent_cells.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <type_traits>

#include "base/rounding.h"
#include "kernels/optimized/vec/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::recurrent::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;
static_assert(hn::MaxLanes(Tag()) <= kMostLanes, "rows are padded to kMostLanes");

// Rows of a tile: its sums, a weight for each gate and one number of a row fill the registers, 32 or 16.
constexpr bool kManyRegisters = hn::MaxLanes(Tag()) >= 16 || HWY_TARGET_IS_NEON;
template <size_t kGates>
constexpr size_t kTileRows = kManyRegisters ? 6
                             : kGates == 4  ? 2
                             : kGates == 3  ? 3
                                            : 6;

size_t Lanes() { return hn::Lanes(Tag()); }

/// sum[r][g] += rows[r] · weight[:, g] for kRows rows.
template <size_t kGates, size_t kRows>
HWY_INLINE void accumulate(const float* const* rows, size_t depth, const float* weight, V (&sum)[kRows][kGates]) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const float* x[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    x[r] = rows[r];
  }
  size_t k = 0;
  if constexpr (kRows * kGates < 8) {
    // Too few sums to keep the units busy for the latency of an addition: a second set for the odd terms.
    V odd[kRows][kGates];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t g = 0; g < kGates; ++g) {
        odd[r][g] = hn::Zero(d);
      }
    }
    for (; k + 2 <= depth; k += 2, weight += 2 * kGates * lanes) {
      for (size_t r = 0; r < kRows; ++r) {
        const V a0 = hn::Set(d, x[r][k]);
        const V a1 = hn::Set(d, x[r][k + 1]);
        for (size_t g = 0; g < kGates; ++g) {
          sum[r][g] = hn::MulAdd(a0, hn::LoadU(d, weight + g * lanes), sum[r][g]);
          odd[r][g] = hn::MulAdd(a1, hn::LoadU(d, weight + (kGates + g) * lanes), odd[r][g]);
        }
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t g = 0; g < kGates; ++g) {
        sum[r][g] = hn::Add(sum[r][g], odd[r][g]);
      }
    }
  }
  for (; k < depth; ++k, weight += kGates * lanes) {
    V w[kGates];
#pragma GCC unroll 4
    for (size_t g = 0; g < kGates; ++g) {
      w[g] = hn::LoadU(d, weight + g * lanes);
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const V a = hn::Set(d, x[r][k]);
#pragma GCC unroll 4
      for (size_t g = 0; g < kGates; ++g) {
        sum[r][g] = hn::MulAdd(a, w[g], sum[r][g]);
      }
    }
  }
}

/// Calls body(number of rows as a type, first row) for tiles that together make [0, rows).
template <size_t kMost, class Body>
HWY_INLINE void over_tiles(size_t rows, const Body& body) {
  size_t r = 0;
  for (; r + kMost <= rows; r += kMost) {
    body(std::integral_constant<size_t, kMost>(), r);
  }
  if constexpr (kMost > 4) {
    if (r + 4 <= rows) {
      body(std::integral_constant<size_t, 4>(), r);
      r += 4;
    }
  }
  if constexpr (kMost > 2) {
    if (r + 2 <= rows) {
      body(std::integral_constant<size_t, 2>(), r);
      r += 2;
    }
  }
  for (; r < rows; ++r) {
    body(std::integral_constant<size_t, 1>(), r);
  }
}

HWY_INLINE void store_first(V v, float* to, size_t count) {
  const Tag d;
  count >= hn::Lanes(d) ? hn::StoreU(v, d, to) : hn::StoreN(v, d, to, count);
}

template <size_t kGates>
void multiply_strips(const RowsProduct& p, size_t begin, size_t end) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const size_t width = kGates * lanes;
  for (size_t strip = begin; strip < end; ++strip) {
    const float* const weight = p.weight + strip * p.depth * width;
    const float* const bias = p.bias == nullptr ? nullptr : p.bias + strip * width;
    const size_t columns = kGates > 1 ? lanes : p.columns - strip * lanes;
    over_tiles<kTileRows<kGates>>(p.count, [&](auto rows, size_t r) HWY_ATTR {
      constexpr size_t kRows = decltype(rows)::value;
      V sum[kRows][kGates];
      for (size_t g = 0; g < kGates; ++g) {
        const V first = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + g * lanes);
        for (size_t i = 0; i < kRows; ++i) {
          sum[i][g] = first;
        }
      }
      accumulate<kGates, kRows>(p.rows + r, p.depth, weight, sum);
      for (size_t i = 0; i < kRows; ++i) {
        for (size_t g = 0; g < kGates; ++g) {
          store_first(sum[i][g], p.out[r + i] + strip * width + g * lanes, columns);
        }
      }
    });
  }
}

/// The new values of a strip's units from the sums of its gates. `cells` and `before` are those of the strip.
template <RecurrentCell kCell, size_t kGates>
HWY_INLINE V unit_values(const V (&sum)[kGates], const float* product, const float* before, size_t count,
                         float* cells) {
  const Tag d;
  if constexpr (kCell == RecurrentCell::kLstm) {
    const V kept = hn::Mul(sigmoid(d, sum[1]), hn::LoadU(d, cells));
    const V cell = hn::MulAdd(sigmoid(d, sum[0]), tanh(d, sum[2]), kept);
    hn::StoreU(cell, d, cells);
    return hn::Mul(sigmoid(d, sum[3]), tanh(d, cell));
  } else if constexpr (kCell == RecurrentCell::kGru) {
    // The third product is scaled by the reset gate before that of the input joins it.
    const V of_input = hn::LoadU(d, product + 2 * hn::Lanes(d));
    const V fresh = tanh(d, hn::MulAdd(sigmoid(d, sum[0]), sum[2], of_input));
    const V old = count >= hn::Lanes(d) ? hn::LoadU(d, before) : hn::LoadN(d, before, count);
    return hn::MulAdd(sigmoid(d, sum[1]), hn::Sub(old, fresh), fresh);
  } else if constexpr (kCell == RecurrentCell::kTanh) {
    return tanh(d, sum[0]);
  } else {
    return hn::IfThenElse(hn::Lt(sum[0], hn::Zero(d)), hn::Zero(d), sum[0]);  // NaN stays
  }
}

template <RecurrentCell kCell>
void step_strips(const CellStep& s, size_t begin, size_t end) {
  constexpr auto kGates = static_cast<size_t>(portable::gates_of(kCell));
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const size_t width = kGates * lanes;
  const size_t padded = round_up(s.hidden, lanes);
  for (size_t strip = begin; strip < end; ++strip) {
    const float* const weight = s.weight + strip * s.depth * width;
    const size_t first = strip * lanes;
    const size_t left = s.hidden - first;
    over_tiles<kTileRows<kGates>>(s.count, [&](auto rows, size_t r) HWY_ATTR {
      constexpr size_t kRows = decltype(rows)::value;
      V sum[kRows][kGates];
      for (size_t i = 0; i < kRows; ++i) {
        const float* const product = s.products[r + i] + strip * width;
        for (size_t g = 0; g < kGates; ++g) {
          sum[i][g] = hn::LoadU(d, kCell == RecurrentCell::kGru && g == 2 ? s.bias + first : product + g * lanes);
        }
      }
      accumulate<kGates, kRows>(s.before + r, s.depth, weight, sum);
      for (size_t i = 0; i < kRows; ++i) {
        const V values =
            unit_values<kCell, kGates>(sum[i], s.products[r + i] + strip * width, s.before[r + i] + first, left,
                                       kCell == RecurrentCell::kLstm ? s.cells + (r + i) * padded + first : nullptr);
        store_first(values, s.units[r + i] + first, left);
      }
    });
  }
}

void MultiplyRows(const RowsProduct& product, size_t begin, size_t end) {
  product.gates == 4   ? multiply_strips<4>(product, begin, end)
  : product.gates == 3 ? multiply_strips<3>(product, begin, end)
                       : multiply_strips<1>(product, begin, end);
}

void StepCells(RecurrentCell cell, const CellStep& step, size_t begin, size_t end) {
  switch (cell) {
    case RecurrentCell::kLstm: return step_strips<RecurrentCell::kLstm>(step, begin, end);
    case RecurrentCell::kGru: return step_strips<RecurrentCell::kGru>(step, begin, end);
    case RecurrentCell::kTanh: return step_strips<RecurrentCell::kTanh>(step, begin, end);
    case RecurrentCell::kRelu: return step_strips<RecurrentCell::kRelu>(step, begin, end);
  }
}

}  // namespace et::kernels::optimized::recurrent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::recurrent {

HWY_EXPORT(Lanes);
HWY_EXPORT(MultiplyRows);
HWY_EXPORT(StepCells);

size_t recurrent_lanes() { return HWY_DYNAMIC_DISPATCH(Lanes)(); }

void multiply_rows(const RowsProduct& product, size_t begin, size_t end) {
  HWY_DYNAMIC_DISPATCH(MultiplyRows)(product, begin, end);
}

void step_cells(RecurrentCell cell, const CellStep& step, size_t begin, size_t end) {
  HWY_DYNAMIC_DISPATCH(StepCells)(cell, step, begin, end);
}

}  // namespace et::kernels::optimized::recurrent
#endif  // HWY_ONCE
