/// What the sparse kernels of this folder read at load: the weight, the bounds of the clamp, and what they cost.
#pragma once

#include "kernels/optimized/sparse/product.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"
#include "runtime/host/kernel_costs.h"

namespace et::kernels::optimized::sparse {

/// The arguments that et::sparse_linear and et::sparse_convolution begin with; then weight_size.
enum SparseArgument : size_t { kInput, kValues, kMask, kBias, kWeightSize };

/// The weight, checked. Errors: NotSupported when it is no float constant; those of check_sparse_weight.
Result<SparseWeight> read_sparse_weight(const char* op, const runtime::PrepareContext& context, Arguments args);

struct SparseBounds {
  float min, max;
};
/// Errors: NotSupported when a bound is computed, not a number, or above the other.
Result<SparseBounds> read_bounds(const runtime::PrepareContext& context, const EValue& min, const EValue& max);

/// What a sparse product takes of the time of a dense one, as measured (sparse/arguments.cpp). `has_windows`: the
/// columns are taps of windows, not channels of one position.
double share_of_dense(const SparseWeight& weight, int64_t positions, bool has_windows);
/// Part of the elements that are kept.
double density_of(const SparseWeight& weight);

/// What the table, in sparse/linear.cpp, needs of an operator.
struct SparseFunctions {
  runtime::KernelRun run;
  runtime::KernelPrepare prepare;
};
extern const SparseFunctions kSparseConvolution;

}  // namespace et::kernels::optimized::sparse
