#include "kernels/cortex_m/elementwise.h"

#include "kernels/quantized/fixed_point_sum.h"

namespace et::kernels::cortex_m {

Error read_operand(const char* op, const Operand& operand, float* scale, int32_t* zero_point) {
  ET_RETURN_IF_ERROR(quantized::check_scale(op, "a scale", operand.scale, scale));
  return quantized::check_zero_point(op, "a zero point", operand.tensor.scalar_type(), operand.zero_point, zero_point);
}

Error add(KernelContext& context, const char* op, const Operand& self, const Operand& other, bool subtract,
          const quantized::OutputParameters& result, const Tensor& out) {
  float a_scale = 0, b_scale = 0;
  int32_t a_zero = 0, b_zero = 0;
  ET_RETURN_IF_ERROR(read_operand(op, self, &a_scale, &a_zero));
  ET_RETURN_IF_ERROR(read_operand(op, other, &b_scale, &b_zero));
  ET_TRY(const Requantizer requantizer, Requantizer::make(op, out, result));
  quantized::FixedPointSum sum;
  ET_CHECK_OR_RETURN(sum.make(a_scale, a_zero, b_scale, b_zero, requantizer.scale(), subtract), NotSupported,
                     "%s: the scales are too far apart", op);
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
