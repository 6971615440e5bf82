/// Depthwise: a depthwise convolution of float images with channels innermost, and rows of it.
///
/// For: depthwise.cpp, which computes it, and separable_convolution.cpp, which runs it on rows in the cache.
///
///     ET_TRY(Depthwise w, pack_depthwise(context, weight, bias, stride, padding, range));   // at load
///     w.in = …;                                                                             // and what else is of a call
///     depthwise_rows(w, 0, rows);
#pragma once

#include "kernels/optimized/pointwise.h"

namespace et::kernels::optimized {

/// One depthwise convolution.
struct Depthwise {
  size_t channels;
  const float* filter;  // [vectors of channels][kernel²][lanes]
  const float* bias;    // [channels, up to whole vectors]
  float min, max;
  int64_t kernel, stride;  // 3 or 5; 1 or 2
  int64_t pad_h, pad_w;

  // Of a call.
  const float* in;  // [batch, in_h, in_w, channels]
  float* out;       // [batch, out_h, out_w, channels]
  int64_t in_h, in_w, out_h, out_w;
  int64_t ring_rows;  // 0, or: `in` is [ring_rows, in_w, channels], where row y of an image stands at y % ring_rows
};

/// Packs a constant weight [channels, 1, kernel, kernel] once a Program; `padding` has one item or two, the bias a number for each
/// channel or is None. What is of a call is 0. Memory: the Program's and the Method's. Errors: MemoryAllocationFailed.
Result<Depthwise> pack_depthwise(runtime::PrepareContext& context, const Tensor& weight, const EValue& bias,
                                 int64_t stride, IntArrayRef padding, Range range);

/// Output rows [begin, end) of all images. Threads: any number at a time.
void depthwise_rows(const Depthwise& w, size_t begin, size_t end);

}  // namespace et::kernels::optimized
