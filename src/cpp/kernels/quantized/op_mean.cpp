// et::quantized_mean, et::quantized_avg_pool2d and et::quantized_adaptive_avg_pool2d: averages of integers. The sum is
// exact; it is divided in the one multiplication that also brings it to the scale of the result.
#include "kernels/quantized/op_mean.h"

#include "kernels/portable/reduce.h"
#include "kernels/quantized/average_windows.h"

namespace et::kernels::quantized {
namespace {

Result<Affine> check_input(const char* op, const Tensor& self, double scale, int64_t zero_point, const Tensor& out) {
  ET_RETURN_IF_ERROR(check_activation(op, "self", self));
  ET_RETURN_IF_ERROR(check_activation(op, "out", out, &self));
  return Affine::make(op, "self", self.scalar_type(), scale, zero_point);
}

/// Images as planes of rows and columns.
struct Planes {
  int64_t batch, channels, height, width;
  int64_t strides[4];

  explicit Planes(const Tensor& image) {
    const bool batched = image.dim() == 4;
    const int64_t first = batched ? 1 : 0;
    batch = batched ? image.size(0) : 1;
    strides[0] = batched ? image.stride(0) : 0;
    channels = image.size(first);
    height = image.size(first + 1);
    width = image.size(first + 2);
    for (int64_t d = 0; d < 3; ++d) {
      strides[1 + d] = image.stride(first + d);
    }
  }
};

/// Averages windows: rows(o) and columns(o) give the window of output row or column o; divisor(rows, columns) what its
/// sum is divided by.
template <typename Rows, typename Columns, typename Divisor>
Error average(KernelContext& context, const char* op, const Tensor& self, const Affine& input,
              const Requantizer& requantize, const Tensor& out, const Rows& rows, const Columns& columns,
              const Divisor& divisor) {
  const Planes from(self), to(out);
  if (out.numel() == 0) {
    return Error::Ok;
  }
  return dispatch<Activations>(self.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const source = self.const_data_ptr<T>();
    T* const target = out.mutable_data_ptr<T>();
    for (int64_t n = 0; n < to.batch; ++n) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", op);
      for (int64_t c = 0; c < to.channels; ++c) {
        const T* const plane = source + n * from.strides[0] + c * from.strides[1];
        for (int64_t oh = 0; oh < to.height; ++oh) {
          const Extent y = rows(oh);
          for (int64_t ow = 0; ow < to.width; ++ow) {
            const Extent x = columns(ow);
            int64_t sum = 0;
            for (int64_t h = y.begin; h < y.end; ++h) {
              for (int64_t w = x.begin; w < x.end; ++w) {
                sum += static_cast<int32_t>(plane[h * from.strides[2] + w * from.strides[3]]) - input.zero_point;
              }
            }
            const auto count = static_cast<float>(divisor(y, x));
            target[n * to.strides[0] + c * to.strides[1] + oh * to.strides[2] + ow * to.strides[3]] =
                static_cast<T>(requantize(sum, input.scale / requantize.scale() * (1.0f / count)));
          }
        }
      }
    }
    return Error::Ok;
  });
}

}  // namespace

Error quantized_mean_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                         IntArrayRef dim, bool keepdim, double output_scale, int64_t output_zero_point,
                         int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_mean";
  ET_TRY(const Affine input, check_input(kOp, self, self_scale, self_zero_point, out));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  portable::Reduction reduction;
  ET_RETURN_IF_ERROR(reduction.plan(context, kOp, self, dim, keepdim, {&out}));
  ET_CHECK_OR_RETURN(reduction.count() > 0 || out.numel() == 0, InvalidArgument, "%s: there is nothing to average",
                     kOp);
  const auto count = static_cast<float>(reduction.count());
  const float scale = input.scale / requantize.scale() * (1.0f / count);
  const int64_t offset = reduction.count() * input.zero_point;
  return dispatch<Activations>(self.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduction.run<int64_t>(
        int64_t{0}, [](int64_t& sum, const int64_t* values, int64_t n) { sum += portable::sum_run(values, n); },
        [&](const int64_t& sum, char* const* outs) {
          *reinterpret_cast<T*>(outs[0]) = static_cast<T>(requantize(sum - offset, scale));
        });
    return Error::Ok;
  });
}

Error quantized_avg_pool2d_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                               IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                               bool count_include_pad, std::optional<int64_t> divisor_override, double output_scale,
                               int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_avg_pool2d";
  ET_TRY(const Affine input, check_input(kOp, self, self_scale, self_zero_point, out));
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 3, 4));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  ET_CHECK_OR_RETURN(!divisor_override.has_value() || *divisor_override != 0, InvalidArgument,
                     "%s: divisor_override is zero", kOp);
  SlidingWindows windows[2];
  Sizes sizes(self.sizes());
  ET_RETURN_IF_ERROR(plan_sliding(kOp, self, kernel_size, stride, padding, ceil_mode, windows, &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return average(context, kOp, self, input, requantize, out, windows[0], windows[1],
                 [&](const Extent& y, const Extent& x) {
                   if (divisor_override.has_value()) {
                     return *divisor_override;
                   }
                   return count_include_pad ? y.counted * x.counted : (y.end - y.begin) * (x.end - x.begin);
                 });
}

Error quantized_adaptive_avg_pool2d_out(KernelContext& context, const Tensor& self, double self_scale,
                                        int64_t self_zero_point, IntArrayRef output_size, double output_scale,
                                        int64_t output_zero_point, int64_t output_min, int64_t output_max,
                                        Tensor& out) {
  constexpr const char* kOp = "et::quantized_adaptive_avg_pool2d";
  ET_TRY(const Affine input, check_input(kOp, self, self_scale, self_zero_point, out));
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 3, 4));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  AdaptiveWindows windows[2];
  Sizes sizes(self.sizes());
  ET_RETURN_IF_ERROR(plan_adaptive(kOp, self, output_size, windows, &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  return average(context, kOp, self, input, requantize, out, windows[0], windows[1],
                 [](const Extent& y, const Extent& x) { return y.counted * x.counted; });
}

}  // namespace et::kernels::quantized
