/// Convolutions of each channel for itself, over images with channels innermost.
///
/// For: quantized_convolution.cpp. Channels go side by side; a tap that lies in the padding reads a row of zero points.
#pragma once

#include "kernels/cortex_m/product.h"

namespace et::kernels::cortex_m {

/// How windows lie on an image: rows, then columns.
struct ImageWindows {
  int32_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
};

class Depthwise {
 public:
  /// `filter` must outlive it.
  Depthwise(const Filter& filter, const ImageWindows& windows, int32_t channels, const Requantizer& requantizer)
      : filter_(filter), windows_(windows), output_(requantizer), channels_(channels) {}
  /// Takes temporary memory. Errors: MemoryAllocationFailed.
  Error start(KernelContext& context);

  /// Channels [first, first + count) are computed from now on.
  Error choose(int32_t first, int32_t count);
  /// One image; both pointers are to the first of the chosen channels.
  void convolve(const int8_t* in, int8_t* out) const;

 private:
  void point_at(const int8_t* in, int32_t row, int32_t column) const;
  void pixel(int8_t* out) const;

  const Filter& filter_;
  ImageWindows windows_;
  Output output_;
  int32_t channels_, count_ = 0;
  Block* block_ = nullptr;
  int8_t* weights_ = nullptr;      // [taps, kBlock]
  int8_t* padding_ = nullptr;      // [kBlock] zero points
  const int8_t** taps_ = nullptr;  // [taps] where each reads for the pixel
};

}  // namespace et::kernels::cortex_m
