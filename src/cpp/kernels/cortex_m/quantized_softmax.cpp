// et::quantized_softmax of int8 over the last dimension. Where there are fewer elements than the 256 powers that the
// plain kernel makes first, each is computed when it is needed.
#include "kernels/cortex_m/kernels.h"
#include "kernels/cortex_m/primitives.h"
#include "numerics/integer_softmax.h"

namespace et::kernels::cortex_m {

bool fits_quantized_softmax(Arguments args) {
  if (!is_int8(*args[0]) || !is_int8(*args[7])) {
    return false;
  }
  const Tensor self = args[0]->to_tensor();
  const int64_t dim = args[2]->number_as_int();
  return self.dim() > 0 && (dim == -1 || dim == self.dim() - 1) && self.numel() <= 128 &&
         portable::is_contiguous(self) && portable::is_contiguous(args[7]->to_tensor());
}

Error quantized_softmax_out(KernelContext& context, const Tensor& self, double self_scale, int64_t dim,
                            double output_scale, int64_t output_zero_point, int64_t output_min, int64_t output_max,
                            Tensor& out) {
  constexpr const char* kOp = "et::quantized_softmax";
  static_cast<void>(dim);  // the last one
  float scale = 0;
  ET_RETURN_IF_ERROR(quantized::check_scale(kOp, "self", self_scale, &scale));
  ET_TRY(const Requantizer requantizer,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  const auto length = static_cast<int32_t>(self.size(-1));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(length) * sizeof(int32_t), alignof(int32_t)));
  auto* const powers = static_cast<int32_t*>(memory);
  const SoftmaxPowers power_of(scale);
  const FixedFactor to_output = SoftmaxShares::to_output(static_cast<double>(requantizer.scale()));
  const auto* from = self.const_data_ptr<int8_t>();
  auto* to = out.mutable_data_ptr<int8_t>();
  for (const int8_t* const end = from + out.numel(); from != end; from += length, to += length) {
    const int32_t largest = *std::max_element(from, from + length);
    int64_t sum = 0;
    for (int32_t i = 0; i < length; ++i) {
      powers[i] = power_of(largest - from[i]);
      sum += powers[i];
    }
    const SoftmaxShares shares(sum);
    for (int32_t i = 0; i < length; ++i) {
      to[i] = static_cast<int8_t>(requantizer.clamp(to_output(shares(powers[i])) + requantizer.zero_point()));
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
