// et::quantized_softmax: softmax of 8-bit integers, all in integers (numerics/integer_softmax.h). What exp takes are
// differences to the largest integer, of which there are 256, so a table replaces it.
#include "kernels/quantized/op_softmax.h"

#include "kernels/portable/loop_nest.h"
#include "kernels/portable/strided_copy.h"
#include "kernels/quantized/affine.h"
#include "numerics/integer_softmax.h"

namespace et::kernels::quantized {

Error quantized_softmax_out(KernelContext& context, const Tensor& self, double self_scale, int64_t dim,
                            double output_scale, int64_t output_zero_point, int64_t output_min, int64_t output_max,
                            Tensor& out) {
  constexpr const char* kOp = "et::quantized_softmax";
  ET_RETURN_IF_ERROR(check_activation(kOp, "self", self));
  ET_RETURN_IF_ERROR(check_activation(kOp, "out", out, &self));
  ET_CHECK_OR_RETURN(self.element_size() == 1, InvalidType, "%s: self is %s, must have 8 bits", kOp,
                     to_string(self.scalar_type()));
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, static_cast<int64_t>(portable::kMaxRank)));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  float scale = 0;
  ET_RETURN_IF_ERROR(check_scale(kOp, "self_scale", self_scale, &scale));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  const SoftmaxPowers power_of(scale);
  int32_t powers[256];
  for (int i = 0; i < 256; ++i) {
    powers[i] = power_of(i);
  }
  const FixedFactor to_output = SoftmaxShares::to_output(static_cast<double>(requantize.scale()));
  const int64_t length = self.size(dim), in_stride = self.stride(dim), out_stride = out.stride(dim);
  const portable::Window from = portable::select_of(self, dim, 0), to = portable::select_of(out, dim, 0);
  portable::LoopNest lanes(from.sizes);
  lanes.add(to.data, to.strides, 1);
  lanes.add(from.data, from.strides, 1);
  lanes.simplify();
  return dispatch<DTypes<ScalarType::Char, ScalarType::Byte>>(self.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    lanes.for_each_run([&](char* const* pointers, int64_t n) {
      for (int64_t lane = 0; lane < n; ++lane) {
        const auto* values = reinterpret_cast<const T*>(pointers[1] + lane * lanes.run_stride(1));
        auto* results = reinterpret_cast<T*>(pointers[0] + lane * lanes.run_stride(0));
        int32_t largest = values[0];
        for (int64_t i = 1; i < length; ++i) {
          largest = std::max<int32_t>(largest, values[i * in_stride]);
        }
        int64_t sum = 0;
        for (int64_t i = 0; i < length; ++i) {
          sum += powers[largest - values[i * in_stride]];
        }
        const SoftmaxShares shares(sum);
        for (int64_t i = 0; i < length; ++i) {
          const int64_t share = shares(powers[largest - values[i * in_stride]]);
          results[i * out_stride] = static_cast<T>(requantize.clamp(to_output(share) + requantize.zero_point()));
        }
      }
    });
    return Error::Ok;
  });
}

}  // namespace et::kernels::quantized
