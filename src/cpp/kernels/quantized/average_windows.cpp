#include "kernels/quantized/average_windows.h"

namespace et::kernels::quantized {

Error plan_sliding(const char* op, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                   bool ceil_mode, SlidingWindows (&windows)[2], Sizes* sizes) {
  for (size_t d = 0; d < 2; ++d) {
    const int64_t axis = self.dim() - 2 + static_cast<int64_t>(d);
    const int64_t size = self.size(axis);
    const int64_t kernel = portable::list_item(kernel_size, d, 0);
    const int64_t step = portable::list_item(stride, d, kernel);
    const int64_t pad = portable::list_item(padding, d, 0);
    ET_CHECK_OR_RETURN(
        kernel > 0 && kernel <= INT32_MAX && step > 0 && step <= INT32_MAX && pad >= 0 && pad <= kernel / 2,
        InvalidArgument, "%s: kernel and stride must be positive, padding at most half of the kernel", op);
    const int64_t room = size + 2 * pad - kernel + (ceil_mode ? step - 1 : 0);
    ET_CHECK_OR_RETURN(room >= 0, InvalidArgument, "%s: self %s is smaller than the kernel", op,
                       ShapeText(self.sizes()).text);
    int64_t extent = room / step + 1;
    if (ceil_mode && (extent - 1) * step >= size + pad) {
      --extent;  // the last window would begin in the padding
    }
    (*sizes)[axis] = extent;
    windows[d] = {size, kernel, step, pad};
  }
  return Error::Ok;
}

Error plan_adaptive(const char* op, const Tensor& self, IntArrayRef output_size, AdaptiveWindows (&windows)[2],
                    Sizes* sizes) {
  ET_CHECK_OR_RETURN(output_size.size() == 2 && output_size[0] >= 0 && output_size[1] >= 0, InvalidArgument,
                     "%s: output_size %s must be two numbers", op, ShapeText(output_size).text);
  for (size_t d = 0; d < 2; ++d) {
    const int64_t axis = self.dim() - 2 + static_cast<int64_t>(d);
    const int64_t size = self.size(axis), count = output_size[d];
    ET_CHECK_OR_RETURN(size > 0 && size <= INT32_MAX && count <= INT32_MAX, InvalidArgument,
                       "%s: self %s has no elements, or too many", op, ShapeText(self.sizes()).text);
    (*sizes)[axis] = count;
    windows[d] = {size, count};
  }
  return Error::Ok;
}

}  // namespace et::kernels::quantized
