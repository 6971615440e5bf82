#include "kernels/cortex_m/average.h"

namespace et::kernels::cortex_m {

bool fits_quantized_adaptive_avg_pool2d(Arguments args) {
  return fits_average(args, args[4]->number_as_double()) && is_channels_last(args[8]->to_tensor());
}

Error quantized_adaptive_avg_pool2d_out(KernelContext& context, const Tensor& self, double self_scale,
                                        int64_t self_zero_point, IntArrayRef output_size, double output_scale,
                                        int64_t output_zero_point, int64_t output_min, int64_t output_max,
                                        Tensor& out) {
  constexpr const char* kOp = "et::quantized_adaptive_avg_pool2d";
  ET_TRY(const Average average, Average::make(kOp, self, self_scale, self_zero_point, out,
                                              {output_scale, output_zero_point, output_min, output_max}));
  quantized::AdaptiveWindows windows[2];
  portable::Sizes sizes(self.sizes());
  ET_RETURN_IF_ERROR(quantized::plan_adaptive(kOp, self, output_size, windows, &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), sizes.size()}));
  average.pool(windows[0], windows[1], out, [](const Extent& y, const Extent& x) {
    return static_cast<float>(static_cast<int32_t>(y.counted * x.counted));
  });
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
