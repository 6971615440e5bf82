/// The integer weight of a recurrent layer in the order in which vectors take it: a lane for each of so many units,
/// four columns of each. The vectors of a strip's gates lie side by side.
///
///     const StepPacking packing{&weight, gates, hidden, lanes};
///     ET_TRY(const int8_t* const packed, packed_steps(context, packing));   // [strips, depth / 4, gates, lanes, 4]
#pragma once

#include "base/rounding.h"
#include "runtime/kernel.h"

namespace et::kernels::optimized::recurrent {

struct StepPacking {
  const runtime::Tensor* weight;  ///< [gates * hidden, hidden] of 8 or packed 4 bits, a constant
  size_t gates, hidden, lanes;

  size_t depth() const { return round_up(hidden, 4); }
  size_t size() const { return divide_up(hidden, lanes) * gates * lanes * depth(); }
  size_t rows() const { return gates * hidden; }
  /// Row n of the weight; `memory` has room for one, and is used where rows are packed.
  const int8_t* row(size_t n, int8_t* memory) const;
  /// Where the lane of row n is, in elements of [strips, gates, lanes].
  size_t lane(size_t n) const;
};

/// Packed once for all methods that share weights. Lives as long as the method does, or the program's cache.
Result<const int8_t*> packed_steps(runtime::PrepareContext& context, StepPacking packing);

}  // namespace et::kernels::optimized::recurrent
