// et::max_pool2d of int8 images with channels innermost: several channels of a window at a time.
#include <algorithm>

#include "kernels/cortex_m/kernels.h"
#include "kernels/cortex_m/primitives.h"
#include "kernels/quantized/average_windows.h"
#include "ops/image_windows.h"

namespace et::kernels::cortex_m {
namespace {

constexpr const char* kOp = "et::max_pool2d";

/// Pixels of a window, as they lie in the image.
struct Window {
  const int8_t* first;
  int32_t height, width, channels;
  ptrdiff_t line;

  /// take(pixel) for each of them, from channel `c` on.
  template <typename Take>
  void for_each(int32_t c, const Take& take) const {
    const int8_t* from = first + c;
    for (int32_t h = 0; h < height; ++h, from += line) {
      const int8_t* x = from;
      for (int32_t w = 0; w < width; ++w, x += channels) {
        take(x);
      }
    }
  }
};

#if defined(ET_CORTEX_M_MVE)

void take_largest(const Window& window, int8_t* out) {
  for (int32_t c = 0; c < window.channels; c += 16) {
    const mve_pred16_t inside = vctp8q(static_cast<uint32_t>(window.channels - c));
    int8x16_t most = vdupq_n_s8(INT8_MIN);
    window.for_each(c, [&](const int8_t* x) { most = vmaxq_s8(most, vldrbq_z_s8(x, inside)); });
    vstrbq_p_s8(out + c, most, inside);
  }
}

#else

void take_largest(const Window& window, int8_t* out) {
  int32_t c = 0;
  for (; c + 4 <= window.channels; c += 4) {
#if defined(ET_CORTEX_M_DSP)
    auto most = static_cast<int32_t>(0x80808080u);
    window.for_each(c, [&](const int8_t* x) {
      const int32_t pixel = load_word(x);
      __asm("ssub8 r12, %1, %0\n sel %0, %1, %0" : "+r"(most) : "r"(pixel) : "r12", "cc");
    });
    std::memcpy(out + c, &most, sizeof(most));
#else
    int32_t most[4] = {INT8_MIN, INT8_MIN, INT8_MIN, INT8_MIN};
    window.for_each(c, [&](const int8_t* x) {
      most[0] = x[0] > most[0] ? x[0] : most[0], most[1] = x[1] > most[1] ? x[1] : most[1];
      most[2] = x[2] > most[2] ? x[2] : most[2], most[3] = x[3] > most[3] ? x[3] : most[3];
    });
    for (int32_t i = 0; i < 4; ++i) {
      out[c + i] = static_cast<int8_t>(most[i]);
    }
#endif
  }
  for (; c < window.channels; ++c) {
    int32_t most = INT8_MIN;
    window.for_each(c, [&](const int8_t* x) { most = *x > most ? *x : most; });
    out[c] = static_cast<int8_t>(most);
  }
}

#endif

/// False where what is written would be read later.
[[gnu::cold]] bool lies_well(Arguments args) {
  const Tensor self = args[0]->to_tensor(), out = args[6]->to_tensor();
  if (lie_apart(self, out)) {
    return true;
  }
  quantized::SlidingWindows windows[2];
  portable::Sizes sizes(self.sizes());
  if (self.size(0) != 1 || self.nbytes() > INT32_MAX || out.nbytes() > INT32_MAX ||
      quantized::plan_sliding(kOp, self, args[1]->to_int_list(), args[2]->to_int_list(), args[3]->to_int_list(),
                              args[5]->number_as_bool(), windows, &sizes) != Error::Ok ||
      !std::equal(sizes.data(), sizes.data() + 4, out.sizes().begin())) {
    return false;
  }
  ops::ImageWindows g;
  for (size_t d = 0; d < 2; ++d) {
    g.in[d] = static_cast<int32_t>(windows[d].size), g.out[d] = static_cast<int32_t>(sizes[d + 2]);
    g.kernel[d] = static_cast<int32_t>(windows[d].kernel), g.stride[d] = static_cast<int32_t>(windows[d].step);
    g.padding[d] = static_cast<int32_t>(windows[d].pad), g.dilation[d] = 1;
  }
  const auto channels = static_cast<int32_t>(self.size(1));
  return ops::distances(g, channels, channels, 1).allow(self.const_data_ptr(), out.const_data_ptr());
}

bool are_ones(IntArrayRef numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](int64_t n) { return n == 1; });
}

}  // namespace

bool fits_max_pool2d(Arguments args) {
  const EValue& out = *args[6];
  return is_int8(*args[0]) && is_int8(out) && is_channels_last(args[0]->to_tensor()) &&
         is_channels_last(out.to_tensor()) && are_ones(args[4]->to_int_list()) && lies_well(args);
}

Error max_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                     IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out) {
  static_cast<void>(dilation);  // 1
  ET_CHECK_OR_RETURN(self.size(1) > 0 && self.size(2) > 0 && self.size(3) > 0, InvalidArgument,
                     "%s: input %s has an empty dimension", kOp, ShapeText(self.sizes()).text);
  quantized::SlidingWindows windows[2];
  portable::Sizes sizes(self.sizes());
  ET_RETURN_IF_ERROR(quantized::plan_sliding(kOp, self, kernel_size, stride, padding, ceil_mode, windows, &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), sizes.size()}));
  const auto channels = static_cast<int32_t>(self.size(1)), width = static_cast<int32_t>(self.size(3));
  const ptrdiff_t line = static_cast<ptrdiff_t>(width) * channels;
  const auto* image = self.const_data_ptr<int8_t>();
  auto* result = out.mutable_data_ptr<int8_t>();
  const int32_t step = ops::pixel_step(image, result);
  const auto rows = static_cast<int32_t>(sizes[2]), columns = static_cast<int32_t>(sizes[3]);
  const int32_t first_row = step > 0 ? 0 : rows - 1, first_column = step > 0 ? 0 : columns - 1;
  const ptrdiff_t image_bytes = line * static_cast<ptrdiff_t>(self.size(2));
  const ptrdiff_t result_bytes = static_cast<ptrdiff_t>(rows) * columns * channels;
  for (int64_t n = 0; n < self.size(0); ++n, image += image_bytes, result += result_bytes) {
    int8_t* to = step > 0 ? result : result + result_bytes - channels;
    for (int32_t i = 0, h = first_row; i < rows; ++i, h += step) {
      const quantized::Extent y = windows[0](h);
      for (int32_t j = 0, w = first_column; j < columns; ++j, w += step, to += step * channels) {
        const quantized::Extent x = windows[1](w);
        take_largest({image + static_cast<ptrdiff_t>(y.begin) * line + static_cast<ptrdiff_t>(x.begin) * channels,
                      static_cast<int32_t>(y.end - y.begin), static_cast<int32_t>(x.end - x.begin), channels, line},
                     to);
      }
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
