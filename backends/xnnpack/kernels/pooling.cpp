// et::max_pool2d.out and aten::avg_pool2d.out, on xnn_max_pooling2d_nhwc_{f32,s8} and xnn_average_pooling2d_nhwc_f32.
//
// The library limits every float, and a NaN is lost at that; windows that have one get it back afterwards.

#include <atomic>
#include <cmath>
#include <limits>

#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/layout.h"
#include "base/number_range.h"
#include "threads/parallel.h"

namespace et::backends::xnnpack {
namespace {

struct Window {
  uint32_t kernel[2], stride[2], padding[2], dilation[2];  // height, width
};

/// Operators of the library.
enum class Pooling : uint8_t { kMax, kMaxOfInt8, kAverage };

struct PoolingState {
  Operator op;
  Window window;
  Pooling pooling;
};

/// Two entries from a list of one or two; an empty list takes `otherwise` (nullptr: not allowed).
bool read_pair(const EValue& value, const uint32_t* otherwise, uint32_t* pair) {
  const IntArrayRef list = value.to_int_list();
  if (list.empty() && otherwise != nullptr) {
    pair[0] = otherwise[0];
    pair[1] = otherwise[1];
    return true;
  }
  if (list.empty() || list.size() > 2) {
    return false;
  }
  for (const int64_t entry : list) {
    if (entry < 0 || entry > INT32_MAX) {
      return false;
    }
  }
  pair[0] = static_cast<uint32_t>(list.front());
  pair[1] = static_cast<uint32_t>(list.back());
  return true;
}

/// What both operators ask of their arguments. Errors: NotSupported.
Error check_images(const EValue& self, const EValue& out, ScalarType dtype) {
  const bool fits = self.to_tensor().scalar_type() == dtype && out.to_tensor().scalar_type() == dtype &&
                    self.to_tensor().dim() == 4 && has_image_layout(self.to_tensor()) &&
                    has_image_layout(out.to_tensor());
  return fits ? Error::Ok : Error::NotSupported;
}

Error keep(PrepareContext& context, const Window& window, Pooling pooling, void** state) {
  for (const int d : {0, 1}) {
    if (window.kernel[d] == 0 || window.stride[d] == 0 || window.dilation[d] == 0 ||
        2 * window.padding[d] > window.kernel[d]) {
      return Error::NotSupported;
    }
  }
  ET_RETURN_IF_ERROR(start_library());
  ET_TRY(PoolingState* const made, make_state<PoolingState>(context));
  made->window = window;
  made->pooling = pooling;
  const ClampRange all;
  const auto* const k = window.kernel;
  const auto* const s = window.stride;
  const auto* const p = window.padding;
  const auto* const d = window.dilation;
  xnn_status status = xnn_status_unsupported_parameter;
  switch (pooling) {
    case Pooling::kMax:
      status = xnn_create_max_pooling2d_nhwc_f32(p[0], p[1], p[0], p[1], k[0], k[1], s[0], s[1], d[0], d[1], all.min,
                                                 all.max, 0, made->op.receive());
      break;
    case Pooling::kMaxOfInt8:
      status = xnn_create_max_pooling2d_nhwc_s8(p[0], p[1], p[0], p[1], k[0], k[1], s[0], s[1], d[0], d[1], -128, 127,
                                                0, made->op.receive());
      break;
    case Pooling::kAverage:
      status = xnn_create_average_pooling2d_nhwc_f32(p[0], p[1], p[0], p[1], k[0], k[1], s[0], s[1], all.min, all.max,
                                                     0, made->op.receive());
      break;
  }
  return keep_state(made, status, state);
}

// max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode, out)
Error prepare_max(PrepareContext& context, Span<EValue* const> args, void** state) {
  const bool is_integer = args[0]->to_tensor().scalar_type() == ScalarType::Char;
  ET_RETURN_IF_ERROR(check_images(*args[0], *args[6], is_integer ? ScalarType::Char : ScalarType::Float));
  Window window;
  if (args[5]->number_as_bool() || !read_pair(*args[1], nullptr, window.kernel) ||
      !read_pair(*args[2], window.kernel, window.stride) || !read_pair(*args[3], nullptr, window.padding) ||
      !read_pair(*args[4], nullptr, window.dilation)) {
    return Error::NotSupported;
  }
  return keep(context, window, is_integer ? Pooling::kMaxOfInt8 : Pooling::kMax, state);
}

// avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, out)
Error prepare_average(PrepareContext& context, Span<EValue* const> args, void** state) {
  ET_RETURN_IF_ERROR(check_images(*args[0], *args[7], ScalarType::Float));
  Window window;
  window.dilation[0] = window.dilation[1] = 1;
  if (args[4]->number_as_bool() || !args[6]->is_none() || !read_pair(*args[1], nullptr, window.kernel) ||
      !read_pair(*args[2], window.kernel, window.stride) || !read_pair(*args[3], nullptr, window.padding)) {
    return Error::NotSupported;
  }
  // The library leaves the padding out of the count.
  if (args[5]->number_as_bool() && (window.padding[0] != 0 || window.padding[1] != 0)) {
    return Error::NotSupported;
  }
  return keep(context, window, Pooling::kAverage, state);
}

/// Images with channels innermost.
struct Images {
  int64_t batch, channels, in[2], out[2];  // height, width
};

bool all_finite(KernelContext& context, const float* x, size_t n) {
  std::atomic<bool> finite{true};
  threads::parallel_for(context.pool(), n, threads::grain_for(1), [&](size_t begin, size_t end) {
    NumberRange range;
    range.add(x + begin, static_cast<int64_t>(end - begin));
    if (range.has_nan || !std::isfinite(range.low) || !std::isfinite(range.high)) {
      finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load(std::memory_order_relaxed);
}

/// What a window adds up to, or its largest number; not a number where one is none, or where infinities of both signs meet in a sum.
float plain_window(const Window& window, const Images& images, const float* image, int64_t h, int64_t w, bool adds) {
  float result = adds ? 0.0f : -std::numeric_limits<float>::infinity();
  for (uint32_t i = 0; i < window.kernel[0]; ++i) {
    const int64_t y = h * window.stride[0] + int64_t{i} * window.dilation[0] - window.padding[0];
    for (uint32_t j = 0; j < window.kernel[1] && y >= 0 && y < images.in[0]; ++j) {
      const int64_t x = w * window.stride[1] + int64_t{j} * window.dilation[1] - window.padding[1];
      if (x >= 0 && x < images.in[1]) {
        const float value = image[(y * images.in[1] + x) * images.channels];
        result = adds ? result + value : value > result || std::isnan(value) ? value : result;
      }
    }
  }
  return result;
}

/// Writes NaN to the outputs of windows that have one.
void restore_nans(const Window& window, const Images& images, const float* x, bool adds, float* y) {
  for (int64_t n = 0; n < images.batch; ++n, x += images.in[0] * images.in[1] * images.channels) {
    for (int64_t h = 0; h < images.out[0]; ++h) {
      for (int64_t w = 0; w < images.out[1]; ++w) {
        for (int64_t c = 0; c < images.channels; ++c, ++y) {
          if (std::isnan(plain_window(window, images, x + c, h, w, adds))) {
            *y = std::numeric_limits<float>::quiet_NaN();
          }
        }
      }
    }
  }
}

Error run(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<PoolingState*>(opaque);
  const Tensor self = args[0]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  const Window& window = state->window;
  int64_t sizes[4] = {self.size(0), self.size(1), 0, 0};
  for (const int d : {0, 1}) {
    const int64_t reach = int64_t{window.dilation[d]} * (window.kernel[d] - 1) + 1;
    const int64_t size = self.size(2 + d);
    const int64_t room = size <= INT32_MAX ? size + 2 * int64_t{window.padding[d]} - reach : -1;
    ET_CHECK_OR_RETURN(room >= 0 && size > 0, InvalidArgument,
                       "pooling: a window of %" PRId64 " does not fit into %" PRId64 " elements", reach, size);
    sizes[2 + d] = room / window.stride[d] + 1;
  }
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const int64_t window_size = int64_t{window.kernel[0]} * window.kernel[1];
  const threads::NativePool pool(pool_for(context, out.numel() * window_size, kWindowPs));
  ET_RETURN_IF_ERROR(state->op.reshape(pool.get(), self.sizes(), "a pooling operator", [&](xnn_operator_t op) {
    const auto n = static_cast<size_t>(self.size(0));
    const auto c = static_cast<size_t>(self.size(1));
    const auto h = static_cast<size_t>(self.size(2));
    const auto w = static_cast<size_t>(self.size(3));
    switch (state->pooling) {
      case Pooling::kMax: return xnn_reshape_max_pooling2d_nhwc_f32(op, n, h, w, c, c, c, nullptr, nullptr, pool.get());
      case Pooling::kMaxOfInt8:
        return xnn_reshape_max_pooling2d_nhwc_s8(op, n, h, w, c, c, c, nullptr, nullptr, pool.get());
      case Pooling::kAverage:
        return xnn_reshape_average_pooling2d_nhwc_f32(op, n, h, w, c, c, c, &state->op.workspace_size,
                                                      &state->op.workspace_alignment, nullptr, nullptr, pool.get());
    }
    return xnn_status_unsupported_parameter;
  }));
  ET_TRY(const void* const x, bytes_with_channels_innermost(context, self, pool.get()));
  ET_TRY(const ImageOutput y, ImageOutput::make(context, out));
  ET_TRY(void* const workspace, state->op.workspace(context));
  xnn_status status = xnn_status_unsupported_parameter;
  switch (state->pooling) {
    case Pooling::kMax:
      status = xnn_setup_max_pooling2d_nhwc_f32(state->op.get(), static_cast<const float*>(x), y.data<float>());
      break;
    case Pooling::kMaxOfInt8:
      status = xnn_setup_max_pooling2d_nhwc_s8(state->op.get(), static_cast<const int8_t*>(x), y.data<int8_t>());
      break;
    case Pooling::kAverage:
      status = xnn_setup_average_pooling2d_nhwc_f32(state->op.get(), workspace, static_cast<const float*>(x),
                                                    y.data<float>());
      break;
  }
  ET_RETURN_IF_ERROR(check(status, "setup", "a pooling operator"));
  ET_RETURN_IF_ERROR(state->op.run(pool.get()));
  if (state->pooling != Pooling::kMaxOfInt8 &&
      !all_finite(context, static_cast<const float*>(x), static_cast<size_t>(self.numel()))) {
    const Images images{self.size(0), self.size(1), {self.size(2), self.size(3)}, {sizes[2], sizes[3]}};
    restore_nans(window, images, static_cast<const float*>(x), state->pooling == Pooling::kAverage, y.data<float>());
  }
  return y.finish(pool.get());
}

}  // namespace

const runtime::Kernel kPoolingKernels[2] = {
    {"et::max_pool2d.out", "Tllllbo", &run, &prepare_max, &destroy_state<PoolingState>, runtime::kPriorityLibrary},
    {"aten::avg_pool2d.out", "TlllbbIo", &run, &prepare_average, &destroy_state<PoolingState>,
     runtime::kPriorityLibrary},
};

}  // namespace et::backends::xnnpack
