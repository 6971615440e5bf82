#include "kernels/cortex_m/depthwise.h"

namespace et::kernels::cortex_m {

Error Depthwise::start(KernelContext& context) {
  const auto taps = static_cast<size_t>(filter_.depth);
  ET_TRY(void* const memory,
         context.allocate_temp(sizeof(Block) + taps * sizeof(void*) + (taps + 1) * kBlock, alignof(void*)));
  std::memset(memory, 0, sizeof(Block));  // channels past the last are read, and forgotten
  block_ = static_cast<Block*>(memory);
  taps_ = reinterpret_cast<const int8_t**>(block_ + 1);
  weights_ = reinterpret_cast<int8_t*>(taps_ + taps);
  padding_ = weights_ + taps * kBlock;
  std::memset(padding_, filter_.zero_point, kBlock);
  return Error::Ok;
}

Error Depthwise::choose(int32_t first, int32_t count) {
  count_ = count;
  ET_RETURN_IF_ERROR(block_->fill(filter_, first, count, true));
  for (int32_t c = 0; c < count; ++c) {
    const int8_t* const row = filter_.weights + static_cast<ptrdiff_t>(first + c) * filter_.depth;
    for (int32_t tap = 0; tap < filter_.depth; ++tap) {
      weights_[tap * kBlock + c] = row[tap];
    }
  }
  return Error::Ok;
}

void Depthwise::point_at(const int8_t* in, int32_t row, int32_t column) const {
  const ImageWindows& g = windows_;
  const int32_t top = row * g.stride[0] - g.padding[0], left = column * g.stride[1] - g.padding[1];
  const int8_t** tap = taps_;
  for (int32_t kh = 0, h = top; kh < g.kernel[0]; ++kh, h += g.dilation[0]) {
    const bool is_inside = h >= 0 && h < g.in[0];
    const int8_t* const line = in + static_cast<ptrdiff_t>(is_inside ? h : 0) * g.in[1] * channels_;
    for (int32_t kw = 0, w = left; kw < g.kernel[1]; ++kw, w += g.dilation[1]) {
      *tap++ = is_inside && w >= 0 && w < g.in[1] ? line + static_cast<ptrdiff_t>(w) * channels_ : padding_;
    }
  }
}

#if defined(ET_CORTEX_M_MVE)

void Depthwise::pixel(int8_t* out) const {
  const VectorOutput to_output(output_);
  const int32_t taps = filter_.depth;
  for (int32_t c = 0; c < count_; c += 8) {
    const mve_pred16_t inside = vctp16q(static_cast<uint32_t>(count_ - c));
    const int32x4x2_t starts = vld2q_s32(block_->starts + c);
    const float32x4x2_t scales = vld2q_f32(block_->scales + c);
    int32x4_t even = starts.val[0], odd = starts.val[1];
    const int8_t* weights = weights_ + c;
    const int8_t* const* tap = taps_;
    for (int32_t i = 0; i < taps; ++i, weights += kBlock) {
      const int16x8_t x = vldrbq_z_s16(*tap++ + c, inside), w = vldrbq_s16(weights);
      even = vaddq_s32(even, vmullbq_int_s16(x, w));
      odd = vaddq_s32(odd, vmulltq_int_s16(x, w));
    }
    const int16x8_t low = vmovnbq_s32(vdupq_n_s16(0), to_output(even, scales.val[0]));
    vstrbq_p_s16(out + c, vmovntq_s32(low, to_output(odd, scales.val[1])), inside);
  }
}

#else

void Depthwise::pixel(int8_t* out) const {
  const int8_t* const* const end = taps_ + filter_.depth;
  const Output output = output_;
  for (int32_t c = 0; c < count_; c += 4) {  // past the last channel: bytes of the next pixel are not read
    const int32_t n = std::min<int32_t>(4, count_ - c);
    int32_t sums[4];
    std::memcpy(sums, block_->starts + c, sizeof(sums));
    const int8_t* weights = weights_ + c;
    const auto write = [&](int32_t i, int32_t sum) { out[c + i] = output.clamp(to_units(sum, block_->scales[c + i])); };
    if (n == 4) {
      int32_t s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
      for (const int8_t* const* tap = taps_; tap != end; ++tap, weights += kBlock) {
        const int8_t* const x = *tap + c;
#if defined(ET_CORTEX_M_DSP)
        const int32_t values = load_word(x), factors = load_word(weights);
        const int16x2_t x_even = __sxtb16(values), x_odd = odd_bytes(values);
        const int16x2_t w_even = __sxtb16(factors), w_odd = odd_bytes(factors);
        s0 = __smlabb(x_even, w_even, s0), s1 = __smlabb(x_odd, w_odd, s1);
        s2 = __smlatt(x_even, w_even, s2), s3 = __smlatt(x_odd, w_odd, s3);
#else
        s0 = multiply_add(s0, x[0], weights[0]), s1 = multiply_add(s1, x[1], weights[1]);
        s2 = multiply_add(s2, x[2], weights[2]), s3 = multiply_add(s3, x[3], weights[3]);
#endif
      }
      if constexpr (kUnitsAreShort) {
        write(0, s0), write(1, s1), write(2, s2), write(3, s3);
        continue;
      }
      sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
    } else {
      for (const int8_t* const* tap = taps_; tap != end; ++tap, weights += kBlock) {
        for (int32_t i = 0; i < n; ++i) {
          sums[i] = multiply_add(sums[i], (*tap)[c + i], weights[i]);
        }
      }
    }
    for (int32_t i = 0; i < n; ++i) {
      write(i, sums[i]);
    }
  }
}

#endif

void Depthwise::convolve(const int8_t* in, int8_t* out) const {
  const int32_t step = ops::pixel_step(in, out), rows = windows_.out[0], columns = windows_.out[1];
  const int32_t top = step > 0 ? 0 : rows - 1, left = step > 0 ? 0 : columns - 1;
  out += static_cast<ptrdiff_t>(top * columns + left) * channels_;
  for (int32_t i = 0, row = top; i < rows; ++i, row += step) {
    for (int32_t j = 0, column = left; j < columns; ++j, column += step, out += step * channels_) {
      point_at(in, row, column);
      pixel(out);
    }
  }
}

}  // namespace et::kernels::cortex_m
