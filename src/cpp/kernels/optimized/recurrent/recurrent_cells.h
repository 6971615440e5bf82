/// The vector code of recurrent layers: products with packed weights, and a step of a cell with its gates.
///
/// For: recurrent.cpp, which packs the weights at load and walks over layers and time. Not for: other products
///      (gemm.h).
///
/// Weights are packed so that the gates of the same units stand side by side: [strips, depth, gates, lanes], a strip
/// being as many units as a vector has lanes, filled up with zeros. A step then has all gates of a unit in registers
/// when its product is done, and writes nothing but the new cell and state.
#pragma once

#include "kernels/portable/recurrent.h"

namespace et::kernels::optimized::recurrent {

using portable::RecurrentCell;

/// Lanes of a vector, which decide how weights are packed. At most kMostLanes.
size_t recurrent_lanes();
inline constexpr size_t kMostLanes = 16;

/// out[r, …] = bias + rows[r] · weight, for strips [begin, end) of the columns.
struct RowsProduct {
  const float* const* rows;  // [count] of `depth` numbers
  size_t count, depth;
  size_t gates;         // vectors of a strip: 4, 3 or 1
  const float* weight;  // [strips, depth, gates, lanes]
  const float* bias;    // [strips, gates, lanes], or nullptr
  float* const* out;    // [count] rows of strips * gates * lanes numbers, or, with one gate, of `columns`
  size_t columns;       // one gate: numbers after these are not written
};
void multiply_rows(const RowsProduct& product, size_t begin, size_t end);

/// One step of a cell for some sequences.
struct CellStep {
  const float* const* products;  // [count] rows of input products: [strips, gates, lanes]
  const float* const* before;    // [count] rows of the state before: [depth]
  float* const* units;           // [count] rows that get the units' values: [hidden]
  float* cells;                  // LSTM: [count, strips * lanes], updated
  size_t count, depth, hidden;
  const float* weight;  // [strips, depth, gates, lanes]
  const float* bias;    // GRU: [strips, lanes], added to the product that the reset gate scales
};
/// For strips [begin, end) of the units; strips are independent of each other.
void step_cells(RecurrentCell cell, const CellStep& step, size_t begin, size_t end);

}  // namespace et::kernels::optimized::recurrent
