// et::quantized_linear of int8, with 8 bits a weight.
#include "kernels/cortex_m/kernels.h"
#include "kernels/cortex_m/product.h"

namespace et::kernels::cortex_m {
namespace {

constexpr const char* kOp = "et::quantized_linear";

}  // namespace

bool fits_quantized_linear(Arguments args) {
  const Tensor input = args[0]->to_tensor(), weight = args[3]->to_tensor();
  return is_int8(*args[0]) && is_int8(*args[3]) && is_int8(*args[10]) && input.dim() > 0 && weight.dim() == 2 &&
         input.size(-1) == weight.size(1) && weight.numel() > 0;
}

Error quantized_linear_out(KernelContext& context, const Tensor& input, double input_scale, int64_t input_zero_point,
                           const Tensor& weight, const Tensor& weight_scales, const OptionalTensor& bias,
                           double output_scale, int64_t output_zero_point, int64_t output_min, int64_t output_max,
                           Tensor& out) {
  ET_RETURN_IF_ERROR(portable::check_row_major(kOp, {&input, &weight, &out}));
  ET_CHECK_OR_RETURN(input.size(-1) == weight.size(1), InvalidArgument, "%s: input and weight do not fit together",
                     kOp);
  ET_TRY(const Requantizer requantizer,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  Filter filter;
  ET_RETURN_IF_ERROR(filter.read(kOp, input_scale, input_zero_point, weight, weight_scales, bias, requantizer));
  portable::Sizes sizes(input.sizes());
  const auto channels = static_cast<int32_t>(weight.size(0));
  sizes[input.dim() - 1] = channels;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), sizes.size()}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  Product product(filter, requantizer);
  ET_RETURN_IF_ERROR(product.start(context));
  int32_t columns = 1;
  for (int64_t d = 0; d + 1 < input.dim(); ++d) {
    columns *= static_cast<int32_t>(input.size(d));
  }
  for (int32_t c = 0; c < channels; c += kBlock) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", kOp);
    ET_RETURN_IF_ERROR(product.choose(c, std::min(kBlock, channels - c), columns));
    product.multiply(input.const_data_ptr<int8_t>(), filter.depth, columns, out.mutable_data_ptr<int8_t>() + c,
                     channels);
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
