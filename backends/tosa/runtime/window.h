/// The window of a convolution or pooling: what is read for each output pixel.
///
/// For: convolution.cpp and pooling.cpp. Dimensions are height, width; pad is top, bottom, left, right.
#pragma once

#include "backends/tosa/runtime/operation.h"

namespace et::backends::tosa {

struct Window {
  int64_t kernel[2], stride[2], dilation[2], pad[4];
};

/// A window from attributes. `dilation` may be nullptr: 1. Errors: InvalidProgram for what level 8K does not allow.
inline Error make_window(const flatbuffers::Vector<int32_t>* pad, const flatbuffers::Vector<int32_t>* stride,
                         const flatbuffers::Vector<int32_t>* dilation, int64_t kernel_height, int64_t kernel_width,
                         Window& window) {
  ET_CHECK_OR_RETURN(pad != nullptr && pad->size() == 4 && stride != nullptr && stride->size() == 2 &&
                         (dilation == nullptr || dilation->size() == 2),
                     InvalidProgram, "TOSA: pad, stride or dilation have the wrong length");
  window = {{kernel_height, kernel_width},
            {stride->Get(0), stride->Get(1)},
            {dilation == nullptr ? 1 : dilation->Get(0), dilation == nullptr ? 1 : dilation->Get(1)},
            {pad->Get(0), pad->Get(1), pad->Get(2), pad->Get(3)}};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t kernel = window.kernel[i], dilated = window.dilation[i];
    ET_CHECK_OR_RETURN(kernel >= 1 && dilated >= 1 && dilated <= kMaxKernel && kernel <= kMaxKernel &&
                           dilated * kernel <= kMaxKernel && window.stride[i] >= 1 && window.stride[i] <= kMaxKernel,
                       InvalidProgram, "TOSA: kernel, stride or dilation is out of range");
    ET_CHECK_OR_RETURN(window.pad[2 * i] >= 0 && window.pad[2 * i] <= kMaxKernel && window.pad[2 * i + 1] >= 0 &&
                           window.pad[2 * i + 1] <= kMaxKernel,
                       InvalidProgram, "TOSA: a padding is out of range");
  }
  return Error::Ok;
}

/// Refuses an output that is not [N, OH, OW, channels] of `dtype`. The window must reach the padded end exactly.
inline Error check_window(const Operation& operation, const Window& window, int64_t channels, payload::DType dtype) {
  const Value &input = operation.in(0), &output = operation.out();
  ET_RETURN_IF_ERROR(require_dtype(output, dtype));
  ET_CHECK_OR_RETURN(output.rank == 4 && output.dims[0] == input.dims[0] && output.dims[3] == channels, InvalidProgram,
                     "TOSA: the output has another batch or other channels than the operands give");
  for (size_t i = 0; i < 2; ++i) {
    const int64_t span =
        input.dim(i + 1) - 1 + window.pad[2 * i] + window.pad[2 * i + 1] - (window.kernel[i] - 1) * window.dilation[i];
    ET_CHECK_OR_RETURN(span >= 0 && span % window.stride[i] == 0 && span / window.stride[i] + 1 == output.dim(i + 1),
                       InvalidProgram, "TOSA: %" PRId32 " rows or columns of the output, the window gives %" PRId64,
                       output.dims[i + 1], span / window.stride[i] + 1);
  }
  return Error::Ok;
}

}  // namespace et::backends::tosa
