// Each output row is a sum of input rows times a tap; the rows stay in the first cache, and compilers make vectors of
// the loops.

#include "kernels/optimized/conv/integer_convolution.h"

#include <algorithm>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/dispatch.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::conv {
namespace {

template <typename T>
struct Planes {
  const T* input;
  const T* weight;
  const T* bias;
  T* out;
};

/// y[i] += factor * x[i * step]
template <typename T>
void add_row(T factor, const T* x, int64_t step, int64_t n, T* y) {
  const auto sum = [factor](T before, T value) {
    return portable::wrapping_add(before, portable::wrapping_mul(factor, value));
  };
  if (step == 1) {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = sum(y[i], x[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      y[i] = sum(y[i], x[i * step]);
    }
  }
}

/// Output rows [begin, end) of all images and filters.
template <typename T>
void convolve_rows(const KernelContext& context, const ConvolutionProblem& p, const Planes<T>& planes, int64_t begin,
                   int64_t end) {
  for (int64_t row = begin; row < end && !context.cancelled(); ++row) {
    const int64_t h = row % p.out[1];
    const int64_t d = row / p.out[1] % p.out[0];
    const int64_t plane = row / p.out[1] / p.out[0];
    const int64_t group = plane / p.out_channels;  // of all images
    const int64_t filter = group % p.groups * p.out_channels + plane % p.out_channels;
    const T* x = planes.input + group * p.in_channels * p.positions_in();
    const T* w = planes.weight + filter * p.in_channels * p.taps();
    T* const y = planes.out + row * p.out[2];
    std::fill_n(y, p.out[2], planes.bias == nullptr ? T(0) : planes.bias[filter]);
    for (int64_t c = 0; c < p.in_channels; ++c, x += p.positions_in()) {
      for (int64_t kd = 0; kd < p.kernel[0]; ++kd) {
        const int64_t id = d * p.stride[0] + kd * p.dilation[0] - p.padding[0];
        for (int64_t kh = 0; kh < p.kernel[1]; ++kh, w += p.kernel[2]) {
          const int64_t ih = h * p.stride[1] + kh * p.dilation[1] - p.padding[1];
          if (id < 0 || id >= p.in[0] || ih < 0 || ih >= p.in[1]) {
            continue;
          }
          const T* const from = x + (id * p.in[1] + ih) * p.in[2];
          for (int64_t kw = 0; kw < p.kernel[2]; ++kw) {
            const int64_t start = kw * p.dilation[2] - p.padding[2];
            const portable::StepRange inside = portable::steps_inside(start, p.stride[2], p.out[2], p.in[2]);
            if (inside.first < inside.last) {
              const int64_t first = start + inside.first * p.stride[2];
              add_row(w[kw], from + first, p.stride[2], inside.last - inside.first, y + inside.first);
            }
          }
        }
      }
    }
  }
}

template <typename T>
Error convolve_planes(KernelContext& context, const ConvolutionProblem& p, const void* input, const void* weight,
                      const void* bias, void* out) {
  const Planes<T> planes{static_cast<const T*>(input), static_cast<const T*>(weight), static_cast<const T*>(bias),
                         static_cast<T*>(out)};
  const int64_t rows = p.batch * p.groups * p.out_channels * p.out[0] * p.out[1];
  const int64_t work = p.out[2] * (1 + p.in_channels * p.taps() / 4);  // four products take as long as a copy
  threads::parallel_for(context, static_cast<size_t>(rows), threads::grain_for(static_cast<size_t>(work)),
                        [&](size_t begin, size_t end) {
                          convolve_rows(context, p, planes, static_cast<int64_t>(begin), static_cast<int64_t>(end));
                        });
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "convolution of integers: cancelled");
  return Error::Ok;
}

}  // namespace

Error convolve_integers(KernelContext& context, const ConvolutionProblem& p, const void* input, const void* weight,
                        const void* bias, void* out) {
  return portable::dispatch<portable::IntegralTypes>(p.dtype, "convolution of integers", [&](auto tag) {
    using T = typename decltype(tag)::type;
    return convolve_planes<T>(context, p, input, weight, bias, out);
  });
}

}  // namespace et::kernels::optimized::conv
