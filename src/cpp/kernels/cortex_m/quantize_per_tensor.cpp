// quantized_decomposed::quantize_per_tensor of float32 to int8, without the machinery of the plain elementwise kernels.
#include "kernels/cortex_m/kernels.h"
#include "numerics/rounding.h"

namespace et::kernels::cortex_m {

bool fits_quantize_per_tensor(Arguments args) {
  const EValue& out = *args[6];
  return args[0]->is_tensor() && args[0]->to_tensor().scalar_type() == ScalarType::Float && is_int8(out) &&
         args[5]->number_as_int() == static_cast<int64_t>(ScalarType::Char) &&
         lie_alike(args[0]->to_tensor(), out.to_tensor()) && args[3]->number_as_int() >= INT8_MIN &&
         args[3]->number_as_int() <= args[4]->number_as_int() && args[4]->number_as_int() <= INT8_MAX;
}

Error quantize_per_tensor_out(KernelContext& context, const Tensor& input, double scale, int64_t zero_point,
                              int64_t quant_min, int64_t quant_max, ScalarType, Tensor& out) {
  ET_CHECK_OR_RETURN(scale != 0 && quant_min >= INT8_MIN && quant_min <= quant_max && quant_max <= INT8_MAX,
                     InvalidArgument,
                     "quantized_decomposed::quantize_per_tensor: scale %g, range [%" PRId64 ", %" PRId64
                     "]: a scale must not be zero, a range be one of torch.int8",
                     scale, quant_min, quant_max);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  const auto inverse = static_cast<float>(1.0 / scale);
  const auto shift = static_cast<float>(zero_point);
  const auto low = static_cast<float>(static_cast<int32_t>(quant_min));
  const auto high = static_cast<float>(static_cast<int32_t>(quant_max));
  const auto* const from = input.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<int8_t>();
  const auto n = static_cast<size_t>(out.numel());
  for (size_t i = 0; i < n; ++i) {
    const float units = round_to_even(from[i] * inverse) + shift;
    const float inside = units < low ? low : units > high ? high : units;
    to[i] = inside == inside ? static_cast<int8_t>(inside) : int8_t{0};  // NaN, as casts of the plain kernels give it
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
