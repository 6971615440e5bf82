#include "kernels/cortex_m/elementwise.h"

namespace et::kernels::cortex_m {

bool fits_quantized_mul(Arguments args) { return fits_pair(args); }

Error quantized_mul_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                        const Tensor& other, double other_scale, int64_t other_zero_point, double output_scale,
                        int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_mul";
  using quantized::Affine;
  ET_TRY(const Affine of_self, Affine::make(kOp, "self", ScalarType::Char, self_scale, self_zero_point));
  ET_TRY(const Affine of_other, Affine::make(kOp, "other", ScalarType::Char, other_scale, other_zero_point));
  ET_TRY(const Requantizer requantizer,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  const float scale = product_scale(of_self.scale, of_other.scale, requantizer.scale());
  ET_CHECK_OR_RETURN(std::isfinite(scale), InvalidArgument, "%s: the scales have no finite ratio", kOp);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  const Output output(requantizer);
  const auto* const a = self.const_data_ptr<int8_t>();
  const auto* const b = other.const_data_ptr<int8_t>();
  auto* const to = out.mutable_data_ptr<int8_t>();
  const auto n = static_cast<int32_t>(out.numel());
  for (int32_t i = 0; i < n; ++i) {
    to[i] = output.clamp(to_units((a[i] - of_self.zero_point) * (b[i] - of_other.zero_point), scale));
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
