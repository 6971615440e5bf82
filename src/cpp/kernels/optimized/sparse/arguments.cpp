#include "kernels/optimized/sparse/arguments.h"

#include <limits>

#include "kernels/optimized/vec/numbers.h"

namespace et::kernels::optimized::sparse {

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

// Times of dense kernels over those of the sparse ones, both in one process and taking turns, one thread
// with AVX-512 on a quiet machine, at densities of 0.3, 0.2, 0.1 and 0.05. Linear 512 to 512: 1 row 0.6, 0.5, 0.9, 1.3;
// 4 rows 0.6, 0.6, 1.2, 1.7; 8 rows 0.9, 1.2, 2.2, 3.2; 64 rows 1.4, 2.0, 3.5, 5.4. Linear 2048 to 2048: 1 row 0.8,
// 0.6, 1.2, 2.3; 64 rows 1.1, 1.7, 3.6, 6.6. Convolutions 1x1: 128 channels on 28x28 1.9, 2.5, 3.8, 5.6; 512 on 7x7
// 1.1, 1.6, 2.8, 4.4. Convolutions 3x3 on 28x28: 0.4, 0.4, 0.5, 0.5 (stride 1, dense by Winograd's method) and 0.5,
// 0.5, 0.6, 0.7 (stride 2), because copying the windows takes most of the time.
double share_of_dense(const SparseWeight& weight, int64_t positions, bool has_windows) {
  const double density = density_of(weight);
  if (has_windows) {
    return 1.3 + 2.5 * density;
  }
  return positions > static_cast<int64_t>(kMostDotRows) ? 0.1 + 2.3 * density : 0.25 + 8 * density;
}

}  // namespace et::kernels::optimized::sparse
