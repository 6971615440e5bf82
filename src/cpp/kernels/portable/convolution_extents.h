/// How the windows of a convolution lie on an image, and the size of what it makes.
///
/// For: convolutions of numbers and of integers, their gradients, unfolding. Not for: pools, which round up too.
///
///     ConvolutionExtents extents;
///     ET_RETURN_IF_ERROR(plan_extents(kOp, input, weight.sizes(), numbers, &extents, sizes.data()));
#pragma once

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

/// The arguments of a convolution; a list has one number for all spatial dimensions, one for each, or none.
struct ConvolutionNumbers {
  IntArrayRef stride, padding, dilation;
  bool is_transposed = false;
  IntArrayRef output_padding = {};
  int64_t groups = 1;
};

/// Everything in three spatial dimensions; fewer have leading sizes of 1.
struct ConvolutionExtents {
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
};

/// Steps of a walk over a row: [first, last), none where last is not above first.
struct StepRange {
  int64_t first, last;
};
/// The steps i in [0, count) for which position start + i * step lies in [0, size).
inline StepRange steps_inside(int64_t start, int64_t step, int64_t count, int64_t size) {
  if (step == 1) {  // a division takes as long as a short row
    return {start >= 0 ? 0 : -start, size - start < count ? size - start : count};
  }
  const int64_t first = start >= 0 ? 0 : (-start + step - 1) / step;
  const int64_t last = start >= size ? 0 : (size - 1 - start) / step + 1;
  return {first, last < count ? last : count};
}

/// Errors: InvalidArgument, naming `op`, unless the numbers of one dimension make sense and fit 31 bits, so that no sum
///         of two products of them overflows.
Error check_window(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);

/// Fills the extents from the last dimensions of `input` and of the weight's sizes [out or in, in or out, spatial…].
/// `sizes`, of an output of the input's rank, gets theirs as the last dimensions. Errors: InvalidArgument, naming `op`,
/// for lists of another length, numbers out of range and kernels that are larger than the padded input.
Error plan_extents(const char* op, const Tensor& input, IntArrayRef weight, const ConvolutionNumbers& numbers,
                   ConvolutionExtents* extents, int64_t* sizes);

}  // namespace et::kernels::portable
