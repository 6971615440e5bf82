/// The sizes of a convolution's gradients.
///
/// For: the kernels of aten::convolution_backward. For transposed convolutions input and output change places, so that
/// `image` is always the side that windows slide over, and `window` the one with an element for each place of a window.
#pragma once

#include "kernels/portable/convolution_extents.h"

namespace et::kernels::portable {

/// Three spatial dimensions; fewer have leading sizes of 1.
struct ConvolutionGradients {
  int64_t batch;
  int64_t groups;
  int64_t image_channels;   // in a group
  int64_t window_channels;  // in a group
  int64_t image[3];
  int64_t window[3];
  int64_t kernel[3];
  int64_t stride[3];
  int64_t padding[3];
  int64_t dilation[3];
};

/// Checks the arguments of aten::convolution_backward, fills the plan and sizes the outputs.
/// Errors: InvalidArgument, naming the operator; those of resize_tensor.
Error plan_gradients(KernelContext& context, const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                     const ConvolutionNumbers& numbers, Span<const bool> output_mask, const Tensor& out0,
                     const Tensor& out1, const Tensor& out2, ConvolutionGradients* plan);

}  // namespace et::kernels::portable
