#include "kernels/cortex_m/average.h"

namespace et::kernels::cortex_m {

bool fits_quantized_avg_pool2d(Arguments args) {
  return fits_average(args, args[9]->number_as_double()) && is_channels_last(args[13]->to_tensor());
}

Error quantized_avg_pool2d_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                               IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                               bool count_include_pad, std::optional<int64_t> divisor_override, double output_scale,
                               int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_avg_pool2d";
  ET_TRY(const Average average, Average::make(kOp, self, self_scale, self_zero_point, out,
                                              {output_scale, output_zero_point, output_min, output_max}));
  ET_CHECK_OR_RETURN(!divisor_override.has_value() || *divisor_override != 0, InvalidArgument,
                     "%s: divisor_override is zero", kOp);
  quantized::SlidingWindows windows[2];
  portable::Sizes sizes(self.sizes());
  ET_RETURN_IF_ERROR(quantized::plan_sliding(kOp, self, kernel_size, stride, padding, ceil_mode, windows, &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), sizes.size()}));
  average.pool(windows[0], windows[1], out, [&](const Extent& y, const Extent& x) {
    return static_cast<float>(divisor_override.has_value() ? *divisor_override
                              : count_include_pad          ? y.counted * x.counted
                                                           : (y.end - y.begin) * (x.end - x.begin));
  });
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
