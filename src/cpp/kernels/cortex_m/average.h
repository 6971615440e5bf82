/// Averages of windows of int8 images with channels innermost.
///
/// For: quantized_avg_pool2d.cpp, quantized_adaptive_avg_pool2d.cpp and quantized_mean.cpp.
#pragma once

#include "kernels/cortex_m/kernels.h"
#include "kernels/cortex_m/primitives.h"
#include "kernels/quantized/average_windows.h"

namespace et::kernels::cortex_m {

using quantized::Extent;

class Average {
 public:
  /// Errors: those of the plain kernels.
  static Result<Average> make(const char* op, const Tensor& self, double self_scale, int64_t self_zero_point,
                              const Tensor& out, const quantized::OutputParameters& result);

  /// Of averages of so many elements, a positive number: what their sums are multiplied by.
  float scale_of(int32_t count) const {
    return product_scale(scale_, product_scale(1.0f, 1.0f, as_float(count)), 1.0f);
  }

  /// All channels of one pixel of the output, from batch `n`; its sums are multiplied by `scale`.
  void pixel(int32_t n, const Extent& rows, const Extent& columns, float scale, int8_t* out) const;

  /// Averages of `count` rows of so many elements, which lie one after the other.
  void rows(int32_t length, int32_t count, int8_t* out) const;

  /// Every pixel of `out`. divisor(rows, columns): what the sum of a window is divided by.
  template <typename Windows, typename Divisor>
  void pool(const Windows& rows, const Windows& columns, const Tensor& out, const Divisor& divisor) const {
    auto* to = out.mutable_data_ptr<int8_t>();
    for (int32_t n = 0; n < out.size(0); ++n) {
      for (int64_t h = 0; h < out.size(2); ++h) {
        for (int64_t w = 0; w < out.size(3); ++w, to += channels_) {
          const Extent y = rows(h), x = columns(w);
          pixel(n, y, x, scale_ * (1.0f / divisor(y, x)), to);  // which may be negative, or 0
        }
      }
    }
  }

 private:
  explicit Average(const Requantizer& requantizer) : output_(requantizer) {}

  Output output_;
  const int8_t* in_ = nullptr;
  int32_t zero_point_ = 0, channels_ = 0, width_ = 0, height_ = 0;
  float scale_ = 1;  // of the input, in units of the output
};

/// True when the quotient of two scales is a finite float.
[[gnu::cold]] bool have_ratio(const EValue& scale, double output_scale);

/// fn(self, …, out): images of int8 whose sums fit 32 bits.
[[gnu::cold]] bool fits_average(Arguments args, double output_scale);

}  // namespace et::kernels::cortex_m
