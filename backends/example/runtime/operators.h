/// The arithmetic of the example "device": plain loops over float32, row-major.
///
/// For: delegate.cpp. A real backend calls its driver or library here.
/// Not for: checking. Sizes were checked by whoever calls.
#pragma once

#include <cstdint>

namespace et::backends::example {

/// Sizes of one convolution. Everything is positive, paddings may be 0.
struct ConvShape {
  int64_t batch, in_channels, in_height, in_width;
  int64_t out_channels, out_height, out_width;
  int64_t kernel_height, kernel_width;
  int64_t stride[2], padding[2], dilation[2];  // height, width
  int64_t groups;
};

/// out[n, o, y, x] = bias[o] + sum over c, i, j of in[n, c, y·sh - ph + i·dh, x·sw - pw + j·dw] · weight[o, c, i, j],
/// then max(out, 0) when `relu`.
///
/// Shapes: input [batch, in_channels, in_height, in_width], weight [out_channels, in_channels / groups, kernel_height,
///         kernel_width], bias [out_channels] or nullptr, output [batch, out_channels, out_height, out_width].
void conv2d(const ConvShape& shape, const float* input, const float* weight, const float* bias, bool relu,
            float* output);

/// output[i] = max(input[i], 0); NaN stays NaN.
void relu(const float* input, int64_t count, float* output);

/// output[i] = a[i] + b[i]
void add(const float* a, const float* b, int64_t count, float* output);

}  // namespace et::backends::example
