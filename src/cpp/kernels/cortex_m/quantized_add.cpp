#include "kernels/cortex_m/elementwise.h"

namespace et::kernels::cortex_m {

bool fits_quantized_add(Arguments args) { return fits_sum(args); }

Error quantized_add_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                        const Tensor& other, double other_scale, int64_t other_zero_point, double output_scale,
                        int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  return add(context, "et::quantized_add", {self, self_scale, self_zero_point}, {other, other_scale, other_zero_point},
             false, {output_scale, output_zero_point, output_min, output_max}, out);
}

}  // namespace et::kernels::cortex_m
