#include "kernels/cortex_m/average.h"

namespace et::kernels::cortex_m {

Result<Average> Average::make(const char* op, const Tensor& self, double self_scale, int64_t self_zero_point,
                              const Tensor& out, const quantized::OutputParameters& result) {
  ET_TRY(const quantized::Affine in,
         quantized::Affine::make(op, "self", self.scalar_type(), self_scale, self_zero_point));
  ET_TRY(const Requantizer requantizer, Requantizer::make(op, out, result));
  Average made(requantizer);
  made.in_ = self.const_data_ptr<int8_t>();
  made.zero_point_ = in.zero_point;
  made.scale_ = product_scale(in.scale, 1.0f, requantizer.scale());
  if (self.dim() == 4) {
    made.channels_ = static_cast<int32_t>(self.size(1));
    made.height_ = static_cast<int32_t>(self.size(2));
    made.width_ = static_cast<int32_t>(self.size(3));
  }
  return made;
}

void Average::pixel(int32_t n, const Extent& rows, const Extent& columns, float scale, int8_t* out) const {
  const auto top = static_cast<int32_t>(rows.begin), left = static_cast<int32_t>(columns.begin);
  const auto height = static_cast<int32_t>(rows.end) - top, width = static_cast<int32_t>(columns.end) - left;
  const int32_t start = height > 0 && width > 0 ? -height * width * zero_point_ : 0;
  const ptrdiff_t line = static_cast<ptrdiff_t>(width_) * channels_;
  const int8_t* const first =
      in_ + (static_cast<ptrdiff_t>(n) * height_ + top) * line + static_cast<ptrdiff_t>(left) * channels_;
#if defined(ET_CORTEX_M_MVE)
  const VectorOutput to_output(output_);
  for (int32_t c = 0; c < channels_; c += 4) {
    const mve_pred16_t inside = vctp32q(static_cast<uint32_t>(channels_ - c));
    int32x4_t sums = vdupq_n_s32(start);
    const int8_t* from = first + c;
    for (int32_t h = 0; h < height; ++h, from += line) {
      const int8_t* x = from;
      for (int32_t w = 0; w < width; ++w, x += channels_) {
        sums = vaddq_s32(sums, vldrbq_z_s32(x, inside));
      }
    }
    vstrbq_p_s32(out + c, to_output(sums, scale), inside);
  }
#else
  for (int32_t c = 0; c < channels_; c += 4) {
    const int32_t count = std::min<int32_t>(4, channels_ - c);
    // A row with fewer channels left counts its first one instead, and forgets it.
    const int32_t second = count > 1 ? 1 : 0, third = count > 2 ? 2 : 0, fourth = count > 3 ? 3 : 0;
    int32_t sums[4] = {start, start, start, start};
    const int8_t* from = first + c;
    for (int32_t h = 0; h < height; ++h, from += line) {
      const int8_t* x = from;
      for (int32_t w = 0; w < width; ++w, x += channels_) {
        sums[0] += x[0], sums[1] += x[second], sums[2] += x[third], sums[3] += x[fourth];
      }
    }
    for (int32_t i = 0; i < count; ++i) {
      out[c + i] = output_.clamp(to_units(sums[i], scale));
    }
  }
#endif
}

void Average::rows(int32_t length, int32_t count, int8_t* out) const {
  const float scale = scale_of(length);
  const int8_t* row = in_;
  for (int32_t i = 0; i < count; ++i, row += length) {
    out[i] = output_.clamp(to_units(sum_of(row, length) - length * zero_point_, scale));
  }
}

bool have_ratio(const EValue& scale, double output_scale) {
  return is_finite(product_scale(static_cast<float>(scale.number_as_double()), 1.0f, static_cast<float>(output_scale)));
}

bool fits_average(Arguments args, double output_scale) {
  constexpr int64_t kMostPixels = INT32_MAX / 256;
  if (!is_int8(*args[0]) || !is_int8(*args[args.size() - 1])) {
    return false;
  }
  const Tensor self = args[0]->to_tensor();
  return is_channels_last(self) && self.size(2) <= INT16_MAX && self.size(3) <= INT16_MAX &&
         self.size(2) * self.size(3) <= kMostPixels && have_ratio(*args[1], output_scale);
}

}  // namespace et::kernels::cortex_m
