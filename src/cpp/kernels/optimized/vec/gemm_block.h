/// A block of a matrix product, packed.
///
/// For: what multiplies packed strips (gemm.h), by vectors or by tiles. Not for: operators.
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::optimized {

/// A block of the product from packed strips: rows of `left` strips, columns of `right` strips. T: of the sums, P: as
/// packed.
template <typename T, typename P = T>
struct GemmBlock {
  const P* left;   // strips [depth, rows of a strip]; of BFloat16 [depth / 2, rows of a strip, 2]
  const P* right;  // strips [depth, columns of a strip], likewise
  size_t depth;    // even for BFloat16
  size_t rows, columns;
  T* out;
  size_t out_stride;
  bool accumulate;
  const T* row_bias = nullptr;  // what the sums of each row begin with; nullptr: 0. Not with tiles of BFloat16
};

}  // namespace et::kernels::optimized
