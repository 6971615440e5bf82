/// Convolutions as products of matrices: the sizes of one, and the windows of an image as a packed operand (gemm.h).
///
/// For: convolution.cpp and sparse/convolution.cpp. Not for: layouts of libraries.
///
/// For each image and group: out [channels, positions] = weight [channels, taps] · windows [taps, positions]. The
/// windows are packed straight from the input. Step (c * kernel[0] + d) * kernel[1] … of a window is input channel c,
/// tap d ….
#pragma once

#include "kernels/optimized/matmul/gemm.h"
#include "kernels/portable/convolution_extents.h"

namespace et::kernels::optimized::conv {

/// Everything in three spatial dimensions; fewer have leading sizes of 1.
struct ConvolutionProblem : portable::ConvolutionExtents {
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t in_channels = 0;   // of a group
  int64_t out_channels = 0;  // of a group
  ScalarType dtype;

  int64_t positions_in() const { return in[0] * in[1] * in[2]; }
  int64_t positions_out() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  /// Windows of one element, one at each position of the input.
  bool is_pointwise() const {
    return taps() == 1 && positions_in() == positions_out() && stride[0] * stride[1] * stride[2] == 1 &&
           padding[0] + padding[1] + padding[2] == 0;
  }
};

using portable::ConvolutionNumbers;

/// Checks the arguments, fills the problem and resizes `out`. `weight`: sizes of one to three spatial dimensions.
/// Errors: InvalidArgument, naming `op`; those of resize_tensor.
Error plan_convolution(KernelContext& context, const char* op, const Tensor& input, IntArrayRef weight,
                       const OptionalTensor& bias, const ConvolutionNumbers& numbers, const Tensor& out,
                       ConvolutionProblem* problem);

/// The input of one image and group, of which windows are packed. It and the problem must live until the product is
/// done.
struct Windows {
  const ConvolutionProblem* problem;
  const void* image;
  int64_t pixel = 0;  ///< 0: row-major; otherwise channels lie innermost, and elements of a pixel are this many
};
/// Row-major: dtypes that gemm.h sums in T. Channels innermost: float, and whole windows (steps from 0 to the end).
template <typename T>
matmul::GemmStripsOf<T> strips_for_windows(const Windows& windows);
inline matmul::GemmStrips strips_of_windows(const Windows& windows) { return strips_for_windows<float>(windows); }

}  // namespace et::kernels::optimized::conv
