/// A weight of packed 4 bits (base/nibbles.h) as bytes, for as long as an operator is made from it.
///
/// For: products that the library has for weights of 8 bits. Not for: running on; the library packs a copy.
#pragma once

#include "backends/xnnpack/kernels/library.h"

namespace et::backends::xnnpack {

class IntegerCopy {
 public:
  IntegerCopy() = default;
  ~IntegerCopy() { delete[] data_; }
  IntegerCopy(const IntegerCopy&) = delete;
  IntegerCopy& operator=(const IntegerCopy&) = delete;

  /// Rows of `columns` integers. Requires a weight [rows, packed_count(columns)]. Errors: MemoryAllocationFailed.
  Error unpack_matrix(const char* op, const Tensor& weight, int64_t columns);
  /// `rows` along the first dimension. Errors: NotSupported when the weight is not that many rows in row-major order;
  /// MemoryAllocationFailed.
  Error unpack_filter(const char* op, const Tensor& weight, int64_t rows);

  const int8_t* data() const { return data_; }
  /// [rows, …], row-major; lives as long as this object. Requires unpack_filter.
  Tensor tensor() { return Tensor(&impl_); }

 private:
  Error allocate(const char* op, int64_t elements);

  int8_t* data_ = nullptr;
  int64_t sizes_[runtime::kMaxRank];
  int64_t strides_[runtime::kMaxRank];
  uint8_t dim_order_[runtime::kMaxRank];
  runtime::TensorImpl impl_;
};

}  // namespace et::backends::xnnpack
