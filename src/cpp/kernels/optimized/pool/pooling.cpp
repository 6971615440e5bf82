// aten::max_pool2d, aten::avg_pool2d and aten::_adaptive_avg_pool2d on images with channels innermost: any window,
// every option.

#include <optional>

#include "kernels/optimized/pool/image_pool.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/op_pool.h"
#include "kernels/portable/shape.h"

namespace et::kernels::optimized::pool {
namespace {

/// Resizes the output, and computes.
template <typename Windows>
Error pool(KernelContext& context, const Tensor& self, const Windows& rows, const Windows& columns, ImagePool* p,
           const Tensor& out) {
  const int64_t sizes[] = {self.size(0), self.size(1), rows.count(), columns.count()};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes, 4}));
  ET_RETURN_IF_ERROR(plan_windows(context, rows, columns, p));
  p->batch = self.size(0);
  p->channels = self.size(1);
  p->in = self.const_data_ptr();
  p->out = out.mutable_data_ptr();
  return pool_images(context, *p);
}

Error max_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out) {
  const PoolWindows rows = windows_along(self, 0, kernel_size, stride, padding, dilation, ceil_mode, false);
  const PoolWindows columns = windows_along(self, 1, kernel_size, stride, padding, dilation, ceil_mode, false);
  if (self.numel() == 0 || rows.count() == 0 || columns.count() == 0) {
    return portable::max_pool2d_out(context, self, kernel_size, stride, padding, dilation, ceil_mode, out);
  }
  ImagePool p{};
  p.kind = self.scalar_type() == ScalarType::Float  ? Pooling::kLargestFloat
           : self.scalar_type() == ScalarType::Char ? Pooling::kLargestChar
                                                    : Pooling::kLargestByte;
  p.row_dilation = rows.dilation;
  p.column_dilation = columns.dilation;
  return pool(context, self, rows, columns, &p, out);
}

Error avg_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                     std::optional<int64_t> divisor_override, Tensor& out) {
  const PoolWindows rows = windows_along(self, 0, kernel_size, stride, padding, {}, ceil_mode, count_include_pad);
  const PoolWindows columns = windows_along(self, 1, kernel_size, stride, padding, {}, ceil_mode, count_include_pad);
  if (self.numel() == 0 || rows.count() == 0 || columns.count() == 0 || divisor_override == 0) {
    return portable::avg_pool2d_out(context, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                                    divisor_override, out);
  }
  ImagePool p{};
  p.kind = Pooling::kMeanFloat;
  p.row_dilation = p.column_dilation = 1;
  p.divisor = divisor_override.value_or(0);
  return pool(context, self, rows, columns, &p, out);
}

Error adaptive_avg_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Tensor& out) {
  const bool is_plain = output_size.size() == 2 && output_size[0] > 0 && output_size[0] <= INT32_MAX &&
                        output_size[1] > 0 && output_size[1] <= INT32_MAX;
  if (self.numel() == 0 || !is_plain || self.size(2) > INT32_MAX || self.size(3) > INT32_MAX) {
    return portable::adaptive_avg_pool2d_out(context, self, output_size, out);
  }
  ImagePool p{};
  p.kind = Pooling::kMeanFloat;
  p.row_dilation = p.column_dilation = 1;
  return pool(context, self, AdaptiveWindows{self.size(2), output_size[0]},
              AdaptiveWindows{self.size(3), output_size[1]}, &p, out);
}

/// fn(self, …, out): images of one element type with channels innermost.
bool fits_images(Arguments args) {
  const EValue& out = *args[args.size() - 1];
  return args[0]->to_tensor().dim() == 4 && out.to_tensor().dim() == 4 && is_channels_last(*args[0]) &&
         is_channels_last(out) && args[0]->to_tensor().scalar_type() == out.to_tensor().scalar_type();
}

bool fits_largest(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  return (dtype == ScalarType::Float || dtype == ScalarType::Char || dtype == ScalarType::Byte) && fits_images(args);
}

bool fits_means(Arguments args) { return is_float(*args[0]) && fits_images(args); }

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&max_pool2d_out, &fits_largest>("et::max_pool2d.out"),
    make_fitting_kernel<&avg_pool2d_out, &fits_means>("aten::avg_pool2d.out"),
    make_fitting_kernel<&adaptive_avg_pool2d_out, &fits_means>("aten::_adaptive_avg_pool2d.out"),
};
constexpr auto kTable = at_priority(kPriorityImages, kKernels);

}  // namespace

ET_KERNEL_TABLE(pooling, {kTable.data(), kTable.size()})

}  // namespace et::kernels::optimized::pool
