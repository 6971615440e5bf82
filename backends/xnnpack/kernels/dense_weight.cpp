#include "backends/xnnpack/kernels/dense_weight.h"

namespace et::backends::xnnpack {

Error DenseWeight::make(const char* op, const PrepareContext& context, const EValue& values, const EValue& mask,
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
  return copy_.allocate(op, ScalarType::Float, size);
}

void DenseWeight::fill() {
  const auto* from = static_cast<const float*>(weight_.values);
  for (size_t row = 0; row < weight_.rows; ++row) {
    from = unpack_row(weight_, row, from, copy_.data<float>() + row * weight_.columns);
  }
}

}  // namespace et::backends::xnnpack
