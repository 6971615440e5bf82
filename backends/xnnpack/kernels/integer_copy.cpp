#include "backends/xnnpack/kernels/integer_copy.h"

#include "base/nibbles.h"

namespace et::backends::xnnpack {

Error IntegerCopy::allocate(const char* op, int64_t elements) {
  // The library may read a few bytes past the end.
  data_ = new (std::nothrow) int8_t[static_cast<size_t>(elements) + XNN_EXTRA_BYTES];
  ET_CHECK_OR_RETURN(data_ != nullptr, MemoryAllocationFailed,
                     "%s: no memory to unpack a weight of %" PRId64 " elements", op, elements);
  return Error::Ok;
}

Error IntegerCopy::unpack_matrix(const char* op, const Tensor& weight, int64_t columns) {
  const int64_t rows = weight.size(0);
  ET_RETURN_IF_ERROR(allocate(op, rows * columns));
  for (int64_t row = 0; row < rows; ++row) {
    unpack_nibbles(weight.const_data_ptr<uint8_t>() + row * weight.size(1), static_cast<size_t>(columns),
                   data_ + row * columns);
  }
  return Error::Ok;
}

Error IntegerCopy::unpack_filter(const char* op, const Tensor& weight, int64_t rows) {
  if (!is_row_major(weight) || weight.numel() == 0 || weight.size(0) != packed_count(rows)) {
    return Error::NotSupported;
  }
  const int64_t size = weight.numel() / weight.size(0);
  ET_RETURN_IF_ERROR(allocate(op, rows * size));
  unpack_nibble_rows(weight.const_data_ptr<uint8_t>(), static_cast<size_t>(rows), static_cast<size_t>(size), data_);
  for (int64_t d = 0; d < weight.dim(); ++d) {
    sizes_[d] = d == 0 ? rows : weight.size(d);
    dim_order_[d] = static_cast<uint8_t>(d);
  }
  impl_ = runtime::TensorImpl(ScalarType::Char, static_cast<size_t>(weight.dim()), sizes_, strides_, dim_order_, data_,
                              static_cast<size_t>(rows * size));
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
