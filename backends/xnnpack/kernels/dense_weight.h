/// A sparse weight (numerics/sparse_weight.h) with its zeros, for as long as an operator is made from it.
///
/// For: weights of which too little was pruned for the sparse kernels. Not for: running on; the library packs a copy.
#pragma once

#include "backends/xnnpack/kernels/weight_copy.h"
#include "numerics/sparse_weight.h"

namespace et::backends::xnnpack {

class DenseWeight {
 public:
  /// Reads the arguments of a sparse operator; the numbers are there after fill(). Errors: NotSupported when they are
  /// no float constants; MemoryAllocationFailed; those of check_sparse_weight.
  Error make(const char* op, const PrepareContext& context, const EValue& values, const EValue& mask,
             const EValue& weight_size);
  void fill();

  const SparseWeight& sparse() const { return weight_; }
  /// [rows, columns]
  const float* data() const { return copy_.data<float>(); }
  /// The same with the weight's own sizes, row-major; lives as long as this object.
  Tensor tensor() { return copy_.tensor(); }

 private:
  SparseWeight weight_;
  WeightCopy copy_;
};

}  // namespace et::backends::xnnpack
