// et::quantized_avg_pool2d, et::quantized_adaptive_avg_pool2d and, over whole images, et::quantized_mean, of bytes with
// channels innermost. Sums, scales and rounding are those of the plain kernels (docs/reference/numerics.md), bit for
// bit.

#include <cmath>
#include <optional>

#include "kernels/optimized/pool/image_pool.h"
#include "kernels/optimized/quantized/arguments.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/shape.h"
#include "kernels/quantized/affine.h"
#include "kernels/quantized/op_mean.h"

namespace et::kernels::optimized::quantized {
namespace {

using kernels::quantized::Requantizer;

/// True for sums that fit 32 bits, and numbers that are checked; the plain kernel computes or refuses the others.
bool is_taken(const Tensor& self, double scale, int64_t zero_point, double output_scale) {
  constexpr int64_t kMostPixels = INT32_MAX / 256;
  const IntegerRange integers(self.scalar_type());
  return self.numel() > 0 && self.size(2) <= INT32_MAX && self.size(3) <= INT32_MAX &&
         self.size(2) * self.size(3) <= kMostPixels && scale > 0 && std::isnormal(static_cast<float>(scale)) &&
         std::isfinite(static_cast<float>(scale) / static_cast<float>(output_scale)) && zero_point >= integers.low &&
         zero_point <= integers.high;
}

template <typename Windows>
Error pool(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point, const Windows& rows,
           const Windows& columns, int64_t divisor, const Requantizer& requantize, const Tensor& out) {
  pool::ImagePool p{};
  p.kind = self.scalar_type() == ScalarType::Char ? pool::Pooling::kMeanChar : pool::Pooling::kMeanByte;
  p.divisor = divisor;
  p.scale = static_cast<float>(self_scale) / requantize.scale();
  p.in_zero_point = static_cast<int32_t>(self_zero_point);
  p.out_zero_point = requantize.zero_point();
  p.low = static_cast<float>(requantize.min() - requantize.zero_point());
  p.high = static_cast<float>(requantize.max() - requantize.zero_point());
  p.row_dilation = p.column_dilation = 1;
  ET_RETURN_IF_ERROR(pool::plan_windows(context, rows, columns, &p));
  p.batch = self.size(0);
  p.channels = self.size(1);
  p.in = self.const_data_ptr();
  p.out = out.mutable_data_ptr();
  return pool::pool_images(context, p);
}

Error quantized_avg_pool2d_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                               IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                               bool count_include_pad, std::optional<int64_t> divisor_override, double output_scale,
                               int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  const auto along = [&](size_t i) {
    return pool::windows_along(self, i, kernel_size, stride, padding, {}, ceil_mode, count_include_pad);
  };
  const pool::PoolWindows rows = along(0), columns = along(1);
  if (!is_taken(self, self_scale, self_zero_point, output_scale) || rows.count() == 0 || columns.count() == 0 ||
      divisor_override == 0) {
    return kernels::quantized::quantized_avg_pool2d_out(context, self, self_scale, self_zero_point, kernel_size, stride,
                                                        padding, ceil_mode, count_include_pad, divisor_override,
                                                        output_scale, output_zero_point, output_min, output_max, out);
  }
  ET_TRY(const Requantizer requantize,
         Requantizer::make("et::quantized_avg_pool2d", out, {output_scale, output_zero_point, output_min, output_max}));
  const int64_t sizes[] = {self.size(0), self.size(1), rows.count(), columns.count()};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, 4}));
  return pool(context, self, self_scale, self_zero_point, rows, columns, divisor_override.value_or(0), requantize, out);
}

Error quantized_adaptive_avg_pool2d_out(KernelContext& context, const Tensor& self, double self_scale,
                                        int64_t self_zero_point, IntArrayRef output_size, double output_scale,
                                        int64_t output_zero_point, int64_t output_min, int64_t output_max,
                                        Tensor& out) {
  const bool has_sizes = output_size.size() == 2 && output_size[0] > 0 && output_size[0] <= INT32_MAX &&
                         output_size[1] > 0 && output_size[1] <= INT32_MAX;
  if (!is_taken(self, self_scale, self_zero_point, output_scale) || !has_sizes) {
    return kernels::quantized::quantized_adaptive_avg_pool2d_out(context, self, self_scale, self_zero_point,
                                                                 output_size, output_scale, output_zero_point,
                                                                 output_min, output_max, out);
  }
  ET_TRY(const Requantizer requantize, Requantizer::make("et::quantized_adaptive_avg_pool2d", out,
                                                         {output_scale, output_zero_point, output_min, output_max}));
  const int64_t sizes[] = {self.size(0), self.size(1), output_size[0], output_size[1]};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, 4}));
  return pool(context, self, self_scale, self_zero_point, pool::AdaptiveWindows{self.size(2), output_size[0]},
              pool::AdaptiveWindows{self.size(3), output_size[1]}, 0, requantize, out);
}

Error quantized_mean_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                         IntArrayRef dim, bool keepdim, double output_scale, int64_t output_zero_point,
                         int64_t output_min, int64_t output_max, Tensor& out) {
  if (!is_taken(self, self_scale, self_zero_point, output_scale)) {
    return kernels::quantized::quantized_mean_out(context, self, self_scale, self_zero_point, dim, keepdim,
                                                  output_scale, output_zero_point, output_min, output_max, out);
  }
  ET_TRY(const Requantizer requantize,
         Requantizer::make("et::quantized_mean", out, {output_scale, output_zero_point, output_min, output_max}));
  const int64_t sizes[] = {self.size(0), self.size(1), 1, 1};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, keepdim ? size_t{4} : size_t{2}}));
  return pool(context, self, self_scale, self_zero_point, pool::AdaptiveWindows{self.size(2), 1},
              pool::AdaptiveWindows{self.size(3), 1}, 0, requantize, out);
}

/// fn(self, …, out): bytes, channels innermost.
bool fits_image(Arguments args) {
  const Tensor self = args[0]->to_tensor();
  const EValue& out = *args[args.size() - 1];
  return (self.scalar_type() == ScalarType::Char || self.scalar_type() == ScalarType::Byte) && self.dim() == 4 &&
         out.to_tensor().scalar_type() == self.scalar_type() && is_channels_last(*args[0]);
}

bool fits_images(Arguments args) {
  const EValue& out = *args[args.size() - 1];
  return fits_image(args) && out.to_tensor().dim() == 4 && is_channels_last(out);
}

/// Over both dimensions of an image, whose result is a row of channels in every order.
bool fits_mean(Arguments args) {
  const IntArrayRef dims = args[3]->to_int_list();
  const auto is = [](int64_t dim, int64_t which) { return dim == which || dim == which - 4; };
  return fits_image(args) && dims.size() == 2 &&
         ((is(dims[0], 2) && is(dims[1], 3)) || (is(dims[0], 3) && is(dims[1], 2)));
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&quantized_avg_pool2d_out, &fits_images>("et::quantized_avg_pool2d.out"),
    make_fitting_kernel<&quantized_adaptive_avg_pool2d_out, &fits_images>("et::quantized_adaptive_avg_pool2d.out"),
    make_fitting_kernel<&quantized_mean_out, &fits_mean>("et::quantized_mean.out"),
};

}  // namespace

ET_KERNEL_TABLE(pooling, kKernels)

}  // namespace et::kernels::optimized::quantized
