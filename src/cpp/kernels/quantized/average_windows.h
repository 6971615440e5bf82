/// The windows that averages of integers are taken over, along rows and along columns.
///
/// For: op_mean.cpp and faster kernels of the same operators. Not for: pools of floats (portable/op_pool.cpp).
#pragma once

#include "kernels/quantized/affine.h"

namespace et::kernels::quantized {

/// The steps of a window along one dimension that lie inside, and how many it counts for.
struct Extent {
  int64_t begin, end, counted;
};

/// Windows of avg_pool2d along one dimension.
struct SlidingWindows {
  int64_t size, kernel, step, pad;
  Extent operator()(int64_t o) const {
    const int64_t begin = o * step - pad;
    const int64_t end = std::min(begin + kernel, size + pad);
    return {std::max<int64_t>(begin, 0), std::min(end, size), end - begin};
  }
};

/// Windows of adaptive_avg_pool2d along one dimension.
struct AdaptiveWindows {
  int64_t size, count;
  Extent operator()(int64_t o) const {
    const int64_t begin = o * size / count;
    const int64_t end = ((o + 1) * size + count - 1) / count;
    return {begin, end, end - begin};
  }
};

/// Fills the windows of rows and of columns, and the last two of `sizes`. Errors: InvalidArgument.
Error plan_sliding(const char* op, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                   bool ceil_mode, SlidingWindows (&windows)[2], Sizes* sizes);
Error plan_adaptive(const char* op, const Tensor& self, IntArrayRef output_size, AdaptiveWindows (&windows)[2],
                    Sizes* sizes);

}  // namespace et::kernels::quantized
