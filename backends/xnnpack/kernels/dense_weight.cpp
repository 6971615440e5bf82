#include "backends/xnnpack/kernels/dense_weight.h"

namespace et::backends::xnnpack {

Error DenseWeight::unpack(const char* op, const PrepareContext& context, const EValue& values, const EValue& mask,
                          const EValue& weight_size) {
  if (!is_constant_float(context, values) || !context.is_constant(mask) || !context.is_constant(weight_size)) {
    return Error::NotSupported;
  }
  ET_RETURN_IF_ERROR(
      check_sparse_weight(op, values.to_tensor(), mask.to_tensor(), weight_size.to_int_list(), &weight_));
  const IntArrayRef size = weight_size.to_int_list();
  if (size.size() > runtime::kMaxRank) {
    return Error::NotSupported;
  }
  // The library may read a few bytes past the end.
  data_ = new (std::nothrow) float[weight_.rows * weight_.columns + XNN_EXTRA_BYTES / sizeof(float)];
  ET_CHECK_OR_RETURN(data_ != nullptr, MemoryAllocationFailed, "%s: no memory to unpack a weight of [%zu, %zu]", op,
                     weight_.rows, weight_.columns);
  const auto* from = static_cast<const float*>(weight_.values);
  for (size_t row = 0; row < weight_.rows; ++row) {
    from = unpack_row(weight_, row, from, data_ + row * weight_.columns);
  }
  for (size_t d = 0; d < size.size(); ++d) {
    sizes_[d] = size[d];
    dim_order_[d] = static_cast<uint8_t>(d);
  }
  impl_ = runtime::TensorImpl(ScalarType::Float, size.size(), sizes_, strides_, dim_order_, data_,
                              weight_.rows * weight_.columns * sizeof(float));
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
