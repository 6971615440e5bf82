#include "kernels/cortex_m/elementwise.h"

#include "kernels/quantized/fixed_point_sum.h"

namespace et::kernels::cortex_m {

Error add(KernelContext& context, const char* op, const Operand& self, const Operand& other, bool subtract,
          const quantized::OutputParameters& result, const Tensor& out) {
  using quantized::Affine;
  ET_TRY(const Affine of_self, Affine::make(op, "self", ScalarType::Char, self.scale, self.zero_point));
  ET_TRY(const Affine of_other, Affine::make(op, "other", ScalarType::Char, other.scale, other.zero_point));
  ET_TRY(const Requantizer requantizer, Requantizer::make(op, out, result));
  quantized::FixedPointSum sum;
  ET_CHECK_OR_RETURN(
      sum.make(of_self.scale, of_self.zero_point, of_other.scale, of_other.zero_point, requantizer.scale(), subtract),
      NotSupported, "%s: the scales are too far apart", op);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.tensor.sizes()));
  const Output output(requantizer);
  const auto* const a = self.tensor.const_data_ptr<int8_t>();
  const auto* const b = other.tensor.const_data_ptr<int8_t>();
  auto* const to = out.mutable_data_ptr<int8_t>();
  const auto n = static_cast<int32_t>(out.numel());
  for (int32_t i = 0; i < n; ++i) {
    const int32_t wide = multiply_add(multiply_add(sum.bias, a[i], sum.a_factor), b[i], sum.b_factor);
    to[i] = output.clamp(wide >> sum.shift);
  }
  return Error::Ok;
}

bool fits_pair(Arguments args) {
  const EValue& out = *args[10];
  return is_int8(*args[0]) && is_int8(*args[3]) && is_int8(out) && args[0]->to_tensor().numel() <= INT32_MAX &&
         lie_alike(args[0]->to_tensor(), args[3]->to_tensor()) && lie_alike(args[0]->to_tensor(), out.to_tensor());
}

bool fits_sum(Arguments args) {
  const auto number = [&](size_t i) { return static_cast<float>(args[i]->number_as_double()); };
  quantized::FixedPointSum sum;
  const bool is_scale = number(1) > 0 && number(4) > 0 && number(6) > 0;
  return fits_pair(args) && is_scale && sum.make(number(1), 0, number(4), 0, number(6), false);
}

}  // namespace et::kernels::cortex_m
