// quantized_decomposed::dequantize_per_tensor of int8 to float32, without the machinery of the plain elementwise
// kernels.
#include "kernels/cortex_m/kernels.h"

namespace et::kernels::cortex_m {

bool fits_dequantize_per_tensor(Arguments args) {
  const EValue& out = *args[7];
  return is_int8(*args[0]) && args[5]->number_as_int() == static_cast<int64_t>(ScalarType::Char) && out.is_tensor() &&
         out.to_tensor().scalar_type() == ScalarType::Float && lie_alike(args[0]->to_tensor(), out.to_tensor());
}

Error dequantize_per_tensor_out(KernelContext& context, const Tensor& input, double scale, int64_t zero_point, int64_t,
                                int64_t, ScalarType, std::optional<ScalarType>, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  const auto factor = static_cast<float>(scale);
  const auto shift = static_cast<float>(zero_point);
  const auto* const from = input.const_data_ptr<int8_t>();
  auto* const to = out.mutable_data_ptr<float>();
  const auto n = static_cast<size_t>(out.numel());
  for (size_t i = 0; i < n; ++i) {
    to[i] = (static_cast<float>(from[i]) - shift) * factor;
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
