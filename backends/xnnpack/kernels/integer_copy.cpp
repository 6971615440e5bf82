#include "backends/xnnpack/kernels/integer_copy.h"

#include <algorithm>

#include "numerics/nibbles.h"

namespace et::backends::xnnpack {

Error IntegerCopy::unpack_matrix(const char* op, const Tensor& weight, int64_t columns) {
  const int64_t rows = weight.size(0);
  ET_RETURN_IF_ERROR(copy_.allocate(op, ScalarType::Char, {rows, columns}));
  for (int64_t row = 0; row < rows; ++row) {
    unpack_nibbles(weight.const_data_ptr<uint8_t>() + row * weight.size(1), static_cast<size_t>(columns),
                   copy_.data<int8_t>() + row * columns);
  }
  return Error::Ok;
}

Error IntegerCopy::unpack_filter(const char* op, const Tensor& weight, int64_t rows) {
  if (!is_row_major(weight) || weight.numel() == 0 || weight.size(0) != packed_count(rows)) {
    return Error::NotSupported;
  }
  int64_t sizes[runtime::kMaxRank];
  std::copy(weight.sizes().begin(), weight.sizes().end(), sizes);
  sizes[0] = rows;
  ET_RETURN_IF_ERROR(copy_.allocate(op, ScalarType::Char, {sizes, weight.sizes().size()}));
  unpack_nibble_rows(weight.const_data_ptr<uint8_t>(), static_cast<size_t>(rows),
                     static_cast<size_t>(weight.numel() / weight.size(0)), copy_.data<int8_t>());
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
