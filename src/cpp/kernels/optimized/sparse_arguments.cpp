#include "kernels/optimized/sparse_arguments.h"

#include <limits>

#include "kernels/optimized/pointwise.h"

namespace et::kernels::optimized {

Result<SparseWeight> read_sparse_weight(const char* op, const runtime::PrepareContext& context, Arguments args) {
  const EValue& out = *args[args.size() - 1];
  if (!is_float(*args[kInput]) || !is_float(*args[kValues]) || !is_float_or_none(*args[kBias]) || !is_float(out) ||
      !context.is_constant(*args[kValues]) || !context.is_constant(*args[kMask]) ||
      !context.is_constant(*args[kWeightSize])) {
    return Error::NotSupported;
  }
  SparseWeight weight;
  ET_RETURN_IF_ERROR(check_sparse_weight(op, args[kValues]->to_tensor(), args[kMask]->to_tensor(),
                                         args[kWeightSize]->to_int_list(), &weight));
  return weight;
}

Result<SparseBounds> read_bounds(const runtime::PrepareContext& context, const EValue& min, const EValue& max) {
  SparseBounds bounds{-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity()};
  for (const auto& [value, end] : {std::pair(&min, &bounds.min), std::pair(&max, &bounds.max)}) {
    if (!value->is_none()) {
      if (!context.is_constant(*value)) {
        return Error::NotSupported;
      }
      *end = number_as_float(*value);
    }
  }
  if (!(bounds.min <= bounds.max)) {  // also when one is not a number
    return Error::NotSupported;
  }
  return bounds;
}

double density_of(const SparseWeight& weight) {
  return static_cast<double>(weight.num_values) /
         (static_cast<double>(weight.rows) * static_cast<double>(weight.columns));
}

// Ratios to the dense kernels of a library, both in one process and taking turns, one thread with AVX-512. At a
// density of 0.3, 0.2 and 0.1: 64 rows of 512 to 512 1.3, 1.8, 3.2; 1x1 of 128 channels on 28x28 1.8, 2.2, 3.8, of 512
// channels on 7x7 0.8, 1.2, 2.2; 3x3 of 64 channels on 28x28 (dense by Winograd's filtering) 1.1, -, 1.4. One row, at 0.1
// and 0.05: 512 to 512 0.9, 0.9; 2048 to 2048 1.5, 3.2; four rows of 512 to 512 1.2, 1.8.
bool is_faster_sparse(const SparseWeight& weight, int64_t positions, bool has_windows) {
  constexpr size_t kLeastForOneRow = 1 << 20;
  if (positions == 1 && weight.rows * weight.columns < kLeastForOneRow) {
    return false;
  }
  const bool fills_vectors = positions > static_cast<int64_t>(kMostDotRows);
  return density_of(weight) <= (fills_vectors && !has_windows ? 0.2 : 0.1);
}

}  // namespace et::kernels::optimized
