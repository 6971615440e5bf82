/// A weight of packed 4 bits (numerics/nibbles.h) as bytes, for as long as an operator is made from it.
///
/// For: products that the library has for weights of 8 bits. Not for: running on; the library packs a copy.
#pragma once

#include "backends/xnnpack/kernels/weight_copy.h"

namespace et::backends::xnnpack {

class IntegerCopy {
 public:
  /// Rows of `columns` integers. Requires a weight [rows, packed_count(columns)]. Errors: MemoryAllocationFailed.
  Error unpack_matrix(const char* op, const Tensor& weight, int64_t columns);
  /// `rows` along the first dimension. Errors: NotSupported when the weight is not that many rows in row-major order;
  /// MemoryAllocationFailed.
  Error unpack_filter(const char* op, const Tensor& weight, int64_t rows);

  const int8_t* data() const { return copy_.data<int8_t>(); }
  /// [rows, …], row-major; lives as long as this object.
  Tensor tensor() { return copy_.tensor(); }

 private:
  WeightCopy copy_;
};

}  // namespace et::backends::xnnpack
