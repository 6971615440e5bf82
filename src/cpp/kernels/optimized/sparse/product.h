/// Products whose left operand is a sparse constant weight (numerics/sparse_weight.h) and whose right operand is
/// packed.
///
/// For: et::sparse_linear and et::sparse_convolution. A step for each value that is kept: one number of the weight
/// times a row of positions, which fills whole vectors whatever the pattern of the zeros is. So the time falls with the
/// density. With few positions the vectors run along the weight's rows instead. Bits and values are read as the file
/// has them and spread by the mask, so that a large weight costs memory traffic for what it keeps only. Not for:
/// weights with few zeros; a dense kernel is faster (SparseCost has what was measured).
///
/// Source: E. Elsen et al., "Fast Sparse ConvNets", 2019 (positions in vectors, a step a value).
#pragma once

#include "kernels/optimized/matmul/gemm.h"
#include "numerics/sparse_weight.h"
#include "runtime/kernel_types.h"

namespace et::kernels::optimized::sparse {

/// A checked weight with what a product needs beside it. Made at load; plain data in the method's memory.
struct SparseMatrix {
  SparseWeight weight;                ///< values are floats
  const uint32_t* starts;             ///< [rows + 1]: index of each row's first value
  const uint32_t* columns = nullptr;  ///< [num_values]: column of each value; nullptr: for dot products only
};

/// Positions up to which dot_rows() is used.
inline constexpr size_t kMostDotRows = 4;

/// Makes the tables of `weight`, without the columns when `only_dots`. Errors: MemoryAllocationFailed.
Error make_sparse_matrix(runtime::PrepareContext& context, const SparseWeight& weight, bool only_dots,
                         SparseMatrix* out);

/// out[r, p] = limit(bias[r] + sum over k of weight(first_row + r, k) * right(k, p)), r < rows, p < positions.
struct SparseProduct {
  const SparseMatrix* left;
  size_t first_row, rows;
  size_t positions;
  matmul::GemmStrips right;  ///< packs strips of positions; depth is the weight's columns
  const float* bias;         ///< [rows], or nullptr
  float min, max;
  float* out;
  size_t row_stride, position_stride;  ///< of `out`; one of them is 1
};

/// Computes the product on the context's threads; the result does not depend on their number.
/// Errors: MemoryAllocationFailed for the packed strips; Cancelled.
Error multiply_sparse(KernelContext& context, const SparseProduct& product);

/// out[p, r] = limit(bias[r] + x[p] · weight[r]) for at most kMostDotRows rows x.
struct SparseDots {
  const SparseMatrix* left;
  const float* x;  ///< [positions, columns]
  size_t positions;
  const float* bias;  ///< [weight.rows], or nullptr
  float min, max;
  float* out;  ///< [positions, weight.rows]
};
void dot_sparse(KernelContext& context, const SparseDots& dots);

/// The rows of a float matrix [positions, depth] as strips; faster than strips_of where rows are long.
matmul::GemmStrips strips_of_rows(const matmul::StridedMatrix& matrix);

}  // namespace et::kernels::optimized::sparse
