/// Convolutions of each channel for itself, over images with channels innermost.
///
/// For: quantized_convolution.cpp. Channels go side by side; a tap that lies in the padding reads a row of zero points.
#pragma once

#include "kernels/cortex_m/product.h"
#include "ops/image_windows.h"

namespace et::kernels::cortex_m {

using ops::ImageWindows;

class Depthwise {
 public:
  /// `filter` must outlive it.
  Depthwise(const Filter& filter, const ImageWindows& windows, int32_t channels, const Requantizer& requantizer)
      : filter_(filter), windows_(windows), output_(requantizer), channels_(channels) {}
  /// Takes temporary memory. Errors: MemoryAllocationFailed.
  Error start(KernelContext& context);

  /// Channels [first, first + count) are computed from now on.
  Error choose(int32_t first, int32_t count);
  /// One image; both pointers are to the first of the chosen channels. From the last pixel to the first where the
  /// result lies behind the image.
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
