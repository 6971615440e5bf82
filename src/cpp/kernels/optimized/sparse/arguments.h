/// What the sparse kernels of this folder read at load: the weight, the bounds of the clamp, and whether sparse pays.
#pragma once

#include "kernels/optimized/sparse/product.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"

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

/// True when a sparse product is expected to be faster than a dense one of a library, as measured
/// (sparse/arguments.cpp). `has_windows`: the columns are taps of windows, not channels of one position.
bool is_faster_sparse(const SparseWeight& weight, int64_t positions, bool has_windows);
/// Part of the elements that are kept.
double density_of(const SparseWeight& weight);

/// Whether a kernel takes what it can, or only what it is the fastest for.
enum class Demand { kFits, kFastest };
/// What the table, in sparse/linear.cpp, needs of an operator.
struct SparseFunctions {
  runtime::KernelRun run;
  runtime::KernelPrepare prepare_fastest, prepare_fits;
};
extern const SparseFunctions kSparseConvolution;

/// Before a library, which would unpack the weight and run dense.
inline constexpr uint8_t kPriorityFastSparse = kPriorityBeforeLibrary;

}  // namespace et::kernels::optimized::sparse
