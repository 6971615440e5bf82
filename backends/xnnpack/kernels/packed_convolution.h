/// Running a convolution whose filter the library has packed.
///
/// For: convolution.cpp and quantized_convolution.cpp, which differ in how they make the operator.
/// Not for: what the arguments mean (geometry.h).
#pragma once

#include "backends/xnnpack/kernels/geometry.h"
#include "backends/xnnpack/kernels/library.h"

namespace et::backends::xnnpack {

/// What the library calls the two steps of a run, for one element type and direction.
struct ConvolutionLibrary {
  const char* call;     ///< the library's operator, for its errors
  int64_t picoseconds;  ///< of a multiplication where channels are summed, for pool_for
  /// `output_padding` is the transposed direction's; the other one needs a workspace.
  xnn_status (*reshape)(Operator& op, size_t batch, size_t height, size_t width, Pair output_padding,
                        pthreadpool_t pool);
  xnn_status (*setup)(xnn_operator_t op, void* workspace, const void* input, void* out);
};

/// ConvolutionLibrary::reshape and setup from the library's functions, in one direction …
template <decltype(&xnn_reshape_convolution2d_nhwc_f32) Reshape>
xnn_status reshape_convolution(Operator& op, size_t batch, size_t height, size_t width, Pair /*output_padding*/,
                               pthreadpool_t pool) {
  return Reshape(op.get(), batch, height, width, &op.workspace_size, &op.workspace_alignment, nullptr, nullptr, pool);
}
template <typename T, xnn_status (*Setup)(xnn_operator_t, void*, const T*, T*)>
xnn_status setup_convolution(xnn_operator_t op, void* workspace, const void* input, void* out) {
  return Setup(op, workspace, static_cast<const T*>(input), static_cast<T*>(out));
}
/// … and in the other.
template <decltype(&xnn_reshape_deconvolution2d_nhwc_f32) Reshape>
xnn_status reshape_deconvolution(Operator& op, size_t batch, size_t height, size_t width, Pair output_padding,
                                 pthreadpool_t pool) {
  return Reshape(op.get(), batch, height, width, output_padding.h, output_padding.w, nullptr, nullptr, pool);
}
template <typename T, xnn_status (*Setup)(xnn_operator_t, const T*, T*)>
xnn_status setup_deconvolution(xnn_operator_t op, void* /*workspace*/, const void* input, void* out) {
  return Setup(op, static_cast<const T*>(input), static_cast<T*>(out));
}

/// The state of such a kernel.
struct PackedConvolution {
  Operator op;
  Geometry geometry;
  const ConvolutionLibrary* library;
  bool gathers = false;  // the operator is a product, windows are gathered in front of it (gather.h)
  uint8_t padding = 0;   // what lies beside the image then: the byte of the input's zero point
};

/// The `run` of such a kernel; its arguments begin with the input and end with the output, both images (layout.h).
Error run_convolution(KernelContext& context, Span<EValue* const> args, void* state);

}  // namespace et::backends::xnnpack
