/// Depthwise: a depthwise convolution of float images or lines with channels innermost, and parts of it; also one of
///            small groups.
///
/// For: depthwise.cpp, which computes it, and separable_convolution.cpp, which runs it on rows in the cache.
///
///     ET_TRY(Depthwise w, pack_depthwise(context, weight, bias, stride, padding, range));   // at load
///     w.in = …;                                                                             // and what else is of a
///     call depthwise_units(w, 0, rows);
#pragma once

#include "kernels/optimized/conv/images.h"

namespace et::kernels::optimized::conv {

/// One depthwise convolution.
struct Depthwise : ImageGeometry {
  size_t channels;
  size_t group;         // channels that a result is made of: 1, 2, 4 or 8
  const float* filter;  // [vectors of channels][kernel_h][kernel_w][group][lanes]
  const float* bias;    // [channels, up to whole vectors]
  float min, max;

  // Of a call.
  const float* in;    // [batch, in_h, in_w, channels]
  float* out;         // [batch, out_h, out_w, channels]
  int64_t ring_rows;  // 0, or, for square ones: `in` is [ring_rows, in_w, channels], where row y of an image stands at
                      // y % ring_rows

  /// Those that have code of their own: filters of 3x3, 5x5 and 7x7, strides of 1 and 2, no dilation, no more padding
  /// than the filter has.
  bool is_square() const {
    return group == 1 && kernel_h == kernel_w && (kernel_h == 3 || kernel_h == 5 || kernel_h == 7) &&
           stride_h == stride_w && stride_h <= 2 && dilation_h == 1 && dilation_w == 1 && pad_h < kernel_h &&
           pad_w < kernel_w;
  }
};

/// Packs a constant weight [channels, group, kernel_h, kernel_w], or without kernel_h, in one of the orders of images,
/// once a Program. The lists have one item or two, the bias has a number for each channel or is None. What is of a call
/// is 0. Memory: the Program's and the Method's. Errors: MemoryAllocationFailed.
Result<Depthwise> pack_depthwise(runtime::PrepareContext& context, const Tensor& weight, const EValue& bias,
                                 IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, Range range);

/// Output rows [begin, end) of all images, or pixels of lines. Threads: any number at a time.
void depthwise_units(const Depthwise& w, size_t begin, size_t end);

}  // namespace et::kernels::optimized::conv
