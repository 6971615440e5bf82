#include "kernels/optimized/conv/convolution_windows.h"

#include <algorithm>
#include <type_traits>

#include "base/checked_math.h"
#include "kernels/optimized/matmul/gemm_pairs.h"
#include "kernels/portable/shape.h"

namespace et::kernels::optimized::conv {
namespace {

using portable::Sizes;

/// Fills line[0, count) with elements of a row from `start` on, `step` apart; 0 outside of its `size` elements.
template <typename T, typename To>
void pack_row(const T* row, int64_t size, int64_t start, int64_t step, int64_t count, To* line) {
  int64_t first = 0;
  int64_t last = count;
  if (start < 0 || start + (count - 1) * step >= size) {
    const portable::StepRange inside = portable::steps_inside(start, step, count, size);
    first = std::min(inside.first, count);
    last = std::max(first, inside.last);
    std::fill_n(line, first, To(0));
    std::fill_n(line + last, count - last, To(0));
    if (first == last) {
      return;  // nothing of the row, which may have no memory
    }
  }
  const T* const from = row + start;
  if (step == 1) {
    for (int64_t i = first; i < last; ++i) {
      line[i] = static_cast<To>(from[i]);
    }
  } else {
    for (int64_t i = first; i < last; ++i) {
      line[i] = static_cast<To>(from[i * step]);
    }
  }
}

/// Neighbouring positions of one output row: `count` from (d, h, w) on.
struct Run {
  int64_t d, h, w, count;
};

/// As a strip's `pack`, for the positions of some runs.
template <typename T, typename To>
void pack_runs(const Windows& windows, size_t k, size_t depth, const Run* runs, size_t num_runs, size_t width,
               To* out) {
  const ConvolutionProblem& p = *windows.problem;
  auto tap = static_cast<int64_t>(k);
  int64_t kw = tap % p.kernel[2];
  int64_t kh = (tap /= p.kernel[2]) % p.kernel[1];
  int64_t kd = (tap /= p.kernel[1]) % p.kernel[0];
  const T* plane = static_cast<const T*>(windows.image) + tap / p.kernel[0] * p.positions_in();
  for (size_t s = 0; s < depth; ++s, out += width) {
    To* line = out;
    for (size_t r = 0; r < num_runs; line += runs[r++].count) {
      const Run& run = runs[r];
      const int64_t id = run.d * p.stride[0] + kd * p.dilation[0] - p.padding[0];
      const int64_t ih = run.h * p.stride[1] + kh * p.dilation[1] - p.padding[1];
      if (id >= 0 && id < p.in[0] && ih >= 0 && ih < p.in[1]) {
        const int64_t start = run.w * p.stride[2] + kw * p.dilation[2] - p.padding[2];
        pack_row(plane + (id * p.in[1] + ih) * p.in[2], p.in[2], start, p.stride[2], run.count, line);
      } else {
        std::fill_n(line, run.count, To(0));
      }
    }
    if (++kw == p.kernel[2]) {
      kw = 0;
      if (++kh == p.kernel[1]) {
        kh = 0;
        if (++kd == p.kernel[0]) {
          kd = 0;
          plane += p.positions_in();
        }
      }
    }
  }
}

template <typename T, typename To>
void pack_windows(const Windows& windows, size_t k, size_t depth, size_t first, size_t count, size_t width, To* out) {
  const ConvolutionProblem& p = *windows.problem;
  constexpr size_t kMostRuns = 32;  // at a time
  const auto start = static_cast<int64_t>(first);
  Run at{start / p.out[2] / p.out[1], start / p.out[2] % p.out[1], start % p.out[2], 0};
  for (size_t done = 0; done < count;) {
    Run runs[kMostRuns];
    size_t num_runs = 0;
    size_t packed = 0;
    for (; num_runs < kMostRuns && done + packed < count; packed += static_cast<size_t>(at.count)) {
      at.count = std::min(p.out[2] - at.w, static_cast<int64_t>(count - done - packed));
      runs[num_runs++] = at;
      at.w = 0;
      if (++at.h == p.out[1]) {
        at.h = 0;
        ++at.d;
      }
    }
    pack_runs<T, To>(windows, k, depth, runs, num_runs, width, out + done);
    done += packed;
  }
  for (size_t s = 0; count < width && s < depth; ++s) {
    std::fill_n(out + s * width + count, width - count, To(0));
  }
}

/// As GemmStripsOf::pack_pairs: some steps at a time are packed as they are, then two made one.
void pack_window_pairs(const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                       BFloat16* out) {
  constexpr size_t kElements = 4096;
  constexpr size_t kWidest = 64;  // two vectors of 64 bytes are 32
  BFloat16 steps[kElements];
  const size_t at_once = kElements / std::min(width, kWidest) / 2 * 2;
  for (size_t start = 0; start < depth; start += at_once) {
    const size_t n = std::min(at_once, depth - start);
    pack_windows<BFloat16>(*static_cast<const Windows*>(state), k + start, n, first, count, width, steps);
    if (n % 2 != 0) {
      std::fill_n(steps + n * width, width, BFloat16());
    }
    for (size_t s = 0; s < n; s += 2) {
      matmul::pack_pair(steps + s * width, steps + (s + 1) * width, width, out + (start + s) * width);
    }
  }
}

/// Windows of an image whose channels lie innermost: four positions at a time, so that whole words are written.
void pack_pixels(const Windows& windows, size_t first, size_t count, size_t width, float* out) {
  const ConvolutionProblem& p = *windows.problem;
  const auto* const image = static_cast<const float*>(windows.image);
  const auto taps = static_cast<size_t>(p.taps());
  const auto channels = static_cast<size_t>(p.in_channels);
  for (size_t i = 0; i < width; i += 4) {
    for (size_t tap = 0; tap < taps; ++tap) {
      const auto t = static_cast<int64_t>(tap);
      const float* pixels[4];
      for (size_t j = 0; j < 4; ++j) {
        const auto at = static_cast<int64_t>(first + i + j);
        const int64_t w = at % p.out[2] * p.stride[2] + t % p.kernel[2] * p.dilation[2] - p.padding[2];
        const int64_t h =
            at / p.out[2] % p.out[1] * p.stride[1] + t / p.kernel[2] % p.kernel[1] * p.dilation[1] - p.padding[1];
        const int64_t d =
            at / p.out[2] / p.out[1] * p.stride[0] + t / p.kernel[2] / p.kernel[1] * p.dilation[0] - p.padding[0];
        const bool inside = i + j < count && w >= 0 && w < p.in[2] && h >= 0 && h < p.in[1] && d >= 0 && d < p.in[0];
        pixels[j] = inside ? image + ((d * p.in[1] + h) * p.in[2] + w) * windows.pixel : nullptr;
      }
      float* to = out + tap * width + i;
      if (pixels[0] != nullptr && pixels[1] != nullptr && pixels[2] != nullptr && pixels[3] != nullptr) {
        for (size_t c = 0; c < channels; ++c, to += taps * width) {
          to[0] = pixels[0][c];
          to[1] = pixels[1][c];
          to[2] = pixels[2][c];
          to[3] = pixels[3][c];
        }
        continue;
      }
      for (size_t c = 0; c < channels; ++c, to += taps * width) {
        for (size_t j = 0; j < 4; ++j) {
          to[j] = pixels[j] == nullptr ? 0.0f : pixels[j][c];
        }
      }
    }
  }
}

}  // namespace

template <typename T>
matmul::GemmStripsOf<T> strips_for_windows(const Windows& windows) {
  static constexpr auto kPack = [](const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                                   T* out) {
    const auto& w = *static_cast<const Windows*>(state);
    if constexpr (std::is_same_v<T, float>) {
      if (w.pixel != 0) {
        return pack_pixels(w, first, count, width, out);
      }
      switch (w.problem->dtype) {
        case ScalarType::BFloat16: return pack_windows<BFloat16>(w, k, depth, first, count, width, out);
        case ScalarType::Half: return pack_windows<Half>(w, k, depth, first, count, width, out);
        default: break;
      }
    } else if constexpr (std::is_same_v<T, int32_t>) {
      switch (w.problem->dtype) {
        case ScalarType::Byte: return pack_windows<uint8_t>(w, k, depth, first, count, width, out);
        case ScalarType::Char: return pack_windows<int8_t>(w, k, depth, first, count, width, out);
        case ScalarType::Short: return pack_windows<int16_t>(w, k, depth, first, count, width, out);
        default: break;
      }
    }
    pack_windows<T>(w, k, depth, first, count, width, out);
  };
  const bool pairs = windows.pixel == 0 && windows.problem->dtype == ScalarType::BFloat16;
  return {kPack, &windows, pairs ? &pack_window_pairs : nullptr};
}

template matmul::GemmStripsOf<float> strips_for_windows<float>(const Windows& windows);
template matmul::GemmStripsOf<double> strips_for_windows<double>(const Windows& windows);
template matmul::GemmStripsOf<int32_t> strips_for_windows<int32_t>(const Windows& windows);
template matmul::GemmStripsOf<int64_t> strips_for_windows<int64_t>(const Windows& windows);

Error plan_convolution(KernelContext& context, const char* op, const Tensor& input, IntArrayRef weight,
                       const OptionalTensor& bias, const ConvolutionNumbers& numbers, const Tensor& out,
                       ConvolutionProblem* p) {
  const bool is_transposed = numbers.is_transposed;
  const int64_t groups = numbers.groups;
  const int64_t spatial = static_cast<int64_t>(weight.size()) - 2;
  const int64_t lead = input.dim() - spatial;  // 1 without a batch
  p->dtype = input.scalar_type();
  p->batch = lead == 2 ? input.size(0) : 1;
  p->groups = groups;
  const int64_t in_channels = input.size(lead - 1);
  int64_t of_groups = 0;  // channels on the side that the weight has one group of
  const bool is_known = groups > 0 && !mul_overflow(weight[1], groups, &of_groups);
  const int64_t out_channels = is_transposed ? of_groups : weight[0];
  const bool channels_fit = is_known && in_channels % groups == 0 && out_channels % groups == 0 &&
                            (is_transposed ? weight[0] : of_groups) == in_channels &&
                            (!bias || bias->numel() == out_channels);
  ET_CHECK_OR_RETURN(channels_fit, InvalidArgument,
                     "%s: input %s, weight %s and bias do not go together with %" PRId64 " groups", op,
                     ShapeText(input.sizes()).text, ShapeText(weight).text, groups);
  p->in_channels = in_channels / groups;
  p->out_channels = out_channels / groups;
  Sizes sizes(input.sizes());
  sizes[lead - 1] = out_channels;
  ET_RETURN_IF_ERROR(portable::plan_extents(op, input, weight, numbers, p, sizes.data()));
  return resize_tensor(context, out, sizes);
}

}  // namespace et::kernels::optimized::conv
