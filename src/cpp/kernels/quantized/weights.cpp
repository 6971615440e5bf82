#include "kernels/quantized/weights.h"

#include "kernels/portable/convert.h"
#include "numerics/nibbles.h"

namespace et::kernels::quantized {

Result<WeightRows> WeightRows::make(const char* op, const Tensor& weight, int64_t columns) {
  const ScalarType dtype = weight.scalar_type();
  ET_CHECK_OR_RETURN(dtype == ScalarType::Char || dtype == ScalarType::Byte, InvalidType,
                     "%s: weight is %s, must be torch.int8, or torch.uint8 with two columns a byte", op,
                     to_string(dtype));
  ET_RETURN_IF_ERROR(check_rank(op, "weight", weight, 2, 2));
  ET_RETURN_IF_ERROR(check_row_major(op, {&weight}));
  WeightRows made;
  made.packed_ = dtype == ScalarType::Byte;
  made.data_ = weight.const_data_ptr();
  made.rows_ = weight.size(0);
  made.columns_ = columns;
  const int64_t needed = made.packed_ ? packed_count(columns) : columns;
  ET_CHECK_OR_RETURN(weight.size(1) == needed, InvalidArgument,
                     "%s: rows of the weight have %" PRId64 " bytes, must have %" PRId64 " for %" PRId64 " columns", op,
                     weight.size(1), needed, columns);
  return made;
}

const int8_t* WeightRows::row(int64_t i, int8_t* memory) const {
  if (!packed_) {
    return static_cast<const int8_t*>(data_) + i * columns_;
  }
  unpack_nibbles(static_cast<const uint8_t*>(data_) + i * packed_count(columns_), static_cast<size_t>(columns_),
                 memory);
  return memory;
}

Result<RowScales> RowScales::make(const char* op, const Tensor& scales, const OptionalTensor& zero_points, int64_t rows,
                                  int64_t columns, int64_t group_size) {
  RowScales made;
  made.is_half_ = scales.scalar_type() == ScalarType::BFloat16;
  ET_CHECK_OR_RETURN(made.is_half_ || scales.scalar_type() == ScalarType::Float, InvalidType,
                     "%s: weight_scales are %s, must be torch.float32 or torch.bfloat16", op,
                     to_string(scales.scalar_type()));
  ET_RETURN_IF_ERROR(check_row_major(op, {&scales}));
  ET_CHECK_OR_RETURN(group_size >= 0 && (group_size == 0 || columns % group_size == 0), InvalidArgument,
                     "%s: rows of %" PRId64 " columns are not made of groups of %" PRId64, op, columns, group_size);
  made.group_size_ = group_size == 0 ? columns : group_size;
  made.groups_ = group_size == 0 ? 1 : columns / group_size;
  made.single_ = group_size == 0 && scales.numel() == 1;
  ET_CHECK_OR_RETURN(made.single_ || scales.numel() == rows * made.groups_, InvalidArgument,
                     "%s: %" PRId64 " weight_scales for %" PRId64 " rows of %" PRId64 " groups", op, scales.numel(),
                     rows, made.groups_);
  made.scales_ = scales.const_data_ptr();
  if (zero_points.has_value()) {
    made.zero_type_ = zero_points->scalar_type();
    ET_CHECK_OR_RETURN(made.zero_type_ == ScalarType::Char || made.zero_type_ == ScalarType::Int ||
                           made.zero_type_ == ScalarType::Long,
                       InvalidType, "%s: weight_zero_points are %s, must be torch.int8, torch.int32 or torch.int64", op,
                       to_string(made.zero_type_));
    ET_CHECK_OR_RETURN(zero_points->numel() == scales.numel(), InvalidArgument,
                       "%s: %" PRId64 " zero points for %" PRId64 " scales", op, zero_points->numel(), scales.numel());
    ET_RETURN_IF_ERROR(check_row_major(op, {&*zero_points}));
    made.zero_points_ = zero_points->const_data_ptr();
  }
  return made;
}

float RowScales::scale(int64_t row, int64_t group) const {
  const int64_t i = index(row, group);
  return is_half_ ? portable::load_one<float>(ScalarType::BFloat16, scales_, i) : static_cast<const float*>(scales_)[i];
}

float RowScales::zero_point(int64_t row, int64_t group) const {
  return zero_points_ == nullptr
             ? 0.0f
             : static_cast<float>(portable::load_one<int64_t>(zero_type_, zero_points_, index(row, group)));
}

}  // namespace et::kernels::quantized
