/// How a filter goes over images and lines with channels innermost: the geometry of a convolution, and the walk over
/// its rows.
///
/// For: depthwise.cpp, window_convolution.cpp, separable_convolution.cpp and those of integers (quantized/). Not for:
/// volumes and transposed ones.
///
///     static_cast<ImageGeometry&>(w) = geometry_of(weight, stride, padding, dilation);                  // at load
///     ET_RETURN_IF_ERROR(plan_call(context, kOp, input, in_channels, out_channels, out, &w));           // of a call
///     share_units(pool, slots, images, w.out_h, [&](size_t slot, int64_t image, int64_t begin, int64_t end) { … });
///     for_each_row(w, begin, end, [&](int64_t row, int64_t first, int64_t end) { … });           // pixels of each
#pragma once

#include <algorithm>

#include "kernels/optimized/conv/clamped_convolution.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::conv {

struct ImageGeometry {
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t in_h, in_w, out_h, out_w;  // of a call

  /// One row of windows: its pixels, not its rows, are shared by threads.
  bool is_line() const { return kernel_h == 1 && in_h == 1 && out_h == 1; }
};

/// Of a filter [out, in / groups, h, w] and lists of one item or two, or of lines, whose height is 1. What is of a call
/// is 0.
inline ImageGeometry geometry_of(const Tensor& weight, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation) {
  const bool is_line = weight.dim() == 3;
  const auto of_rows = [&](IntArrayRef list, int64_t of_line) { return is_line ? of_line : list[0]; };
  return {is_line ? 1 : weight.size(2),
          weight.size(-1),
          of_rows(stride, 1),
          stride[stride.size() - 1],
          of_rows(padding, 0),
          padding[padding.size() - 1],
          of_rows(dilation, 1),
          dilation[dilation.size() - 1],
          0,
          0,
          0,
          0};
}

/// Sets the sizes of a call and those of its output. Errors: InvalidArgument for an image with other channels than the
/// filter was packed for, or smaller than the filter.
inline Error plan_call(KernelContext& context, const char* op, const Tensor& input, size_t in_channels,
                       size_t out_channels, const Tensor& out, ImageGeometry* g) {
  ET_RETURN_IF_ERROR(check_channels(input, in_channels));
  g->in_h = input.dim() == 3 ? 1 : input.size(2);
  g->in_w = input.size(-1);
  g->out_h = output_extent(g->in_h, g->pad_h, g->kernel_h, g->stride_h, g->dilation_h);
  g->out_w = output_extent(g->in_w, g->pad_w, g->kernel_w, g->stride_w, g->dilation_w);
  return resize_output(context, op, input, out_channels, g->out_h, g->out_w, out);
}

/// Units of the output, rows or pixels of a line, of all images in `slots` shares, each on a thread:
/// run(slot, image, begin, end) for those of one image.
template <typename Run>
void share_units(threads::ThreadPool* pool, size_t slots, int64_t images, int64_t units, const Run& run) {
  threads::parallel_tasks(slots > 1 ? pool : nullptr, slots, [&](size_t slot) {
    const auto bound = [&](size_t i) { return images * units * static_cast<int64_t>(i) / static_cast<int64_t>(slots); };
    for (int64_t unit = bound(slot), last; unit < bound(slot + 1); unit = last) {
      const int64_t image = unit / units;
      last = std::min(bound(slot + 1), (image + 1) * units);
      run(slot, image, unit - image * units, last - image * units);
    }
  });
}

/// Calls part(row, first, end) for the pixels of each row of the output that units [begin, end) of all images have:
/// whole rows of images, some pixels of lines. Rows count through all images.
template <typename Part>
void for_each_row(const ImageGeometry& g, size_t begin, size_t end, const Part& part) {
  const size_t of_a_row = g.is_line() ? static_cast<size_t>(g.out_w) : 1;
  for (size_t unit = begin, next; unit < end; unit = next) {
    const size_t row = unit / of_a_row, first = unit % of_a_row;
    next = std::min(end, unit - first + of_a_row);
    part(static_cast<int64_t>(row), static_cast<int64_t>(first),
         g.is_line() ? static_cast<int64_t>(first + next - unit) : g.out_w);
  }
}

}  // namespace et::kernels::optimized::conv
