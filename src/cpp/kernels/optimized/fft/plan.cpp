#include "kernels/optimized/fft/plan.h"

#include <cmath>

namespace et::kernels::optimized::fft {
namespace {

constexpr double kPi = 3.14159265358979323846;

ComplexDouble root(double numerator, double denominator) {
  const double angle = -2.0 * kPi * (numerator / denominator);
  return {std::cos(angle), std::sin(angle)};
}

size_t smallest_factor(size_t n) {
  for (size_t f = 2; f * f <= n; ++f) {
    if (n % f == 0) {
      return f;
    }
  }
  return n;
}

template <typename U>
Result<U*> allocate(KernelContext& context, size_t count) {
  ET_TRY(void* memory, context.allocate_temp(count * sizeof(U)));
  return static_cast<U*>(memory);
}

// Radices that multiply to n: fours, then what is left in growing order (the last stage has no twiddles).
size_t next_radix(size_t n) { return n % 4 == 0 ? 4 : smallest_factor(n); }

}  // namespace

Result<RootsOfUnity> RootsOfUnity::make(KernelContext& context, size_t n) {
  RootsOfUnity roots;
  while ((size_t{1} << 2 * roots.shift_) < n) {
    ++roots.shift_;
  }
  const size_t low_count = size_t{1} << roots.shift_;
  const size_t high_count = (n >> roots.shift_) + 1;
  roots.mask_ = low_count - 1;
  ET_TRY(ComplexDouble * low, allocate<ComplexDouble>(context, low_count));
  ET_TRY(ComplexDouble * high, allocate<ComplexDouble>(context, high_count));
  for (size_t k = 0; k < low_count; ++k) {
    low[k] = root(static_cast<double>(k), static_cast<double>(n));
  }
  for (size_t k = 0; k < high_count; ++k) {
    high[k] = root(static_cast<double>(k << roots.shift_), static_cast<double>(n));
  }
  roots.low_ = low;
  roots.high_ = high;
  return roots;
}

template <typename T>
Result<FftPlan<T>> FftPlan<T>::make(KernelContext& context, size_t n) {
  FftPlan plan;
  plan.n = plan.m = n;
  if (!is_smooth(n)) {
    ET_TRY(plan, make_chirp(context, n, convolution_length(n)));
  }
  ET_TRY(RootsOfUnity roots, RootsOfUnity::make(context, plan.m));
  size_t s = 1;
  for (size_t rest = plan.m; rest > 1;) {
    const size_t radix = next_radix(rest);
    const size_t m = rest / radix;
    ET_TRY(T * twiddles, allocate<T>(context, 2 * (m * (radix - 1) + radix)));
    FftStage<T>& stage = plan.stages[plan.num_stages++];
    stage = {radix, m, s, twiddles, twiddles + 2 * m * (radix - 1)};
    for (size_t p = 0; p < m; ++p) {
      for (size_t k = 1; k < radix; ++k) {
        const ComplexDouble w = roots.at(p * k * s);
        *twiddles++ = static_cast<T>(w.re);
        *twiddles++ = static_cast<T>(w.im);
      }
    }
    for (size_t k = 0; k < radix; ++k) {
      const ComplexDouble w = root(static_cast<double>(k), static_cast<double>(radix));
      *twiddles++ = static_cast<T>(w.re);
      *twiddles++ = static_cast<T>(-w.im);
    }
    s *= radix;
    rest = m;
  }
  return plan;
}

template <typename T>
Result<FftPlan<T>> FftPlan<T>::make_chirp(KernelContext& context, size_t n, size_t m) {
  FftPlan plan;
  plan.n = n;
  plan.m = m;
  ET_TRY(T * chirp, allocate<T>(context, 2 * n));
  ET_TRY(T * filter, allocate<T>(context, 2 * plan.m));
  ET_TRY(RootsOfUnity halves, RootsOfUnity::make(context, 2 * n));
  const double scale = 1.0 / static_cast<double>(plan.m);
  size_t square = 0;  // k² modulo 2 n, so that the angle stays exact
  for (size_t k = 0; k < 2 * plan.m; ++k) {
    filter[k] = T(0);
  }
  for (size_t k = 0; k < n; ++k) {
    const ComplexDouble w = halves.at(square);
    chirp[2 * k] = static_cast<T>(w.re);
    chirp[2 * k + 1] = static_cast<T>(w.im);
    for (const size_t place : {k, (plan.m - k) % plan.m}) {
      filter[2 * place] = static_cast<T>(w.re * scale);
      filter[2 * place + 1] = static_cast<T>(-w.im * scale);
    }
    square = (square + 2 * k + 1) % (2 * n);
  }
  plan.chirp = chirp;
  plan.filter = filter;
  return plan;
}

template struct FftPlan<float>;
template struct FftPlan<double>;

bool is_smooth(size_t n) {
  while (n > 1) {
    const size_t factor = smallest_factor(n);
    if (factor > kLargestRadix) {
      return false;
    }
    n /= factor;
  }
  return true;
}

size_t split_length(size_t n) {
  if (!is_smooth(n) || n > kLongestInLanes * kLongestInLanes) {
    return 1;
  }
  auto first = static_cast<size_t>(std::sqrt(static_cast<double>(n)));
  while (first > 1 && n % first != 0) {
    --first;
  }
  return n / first <= kLongestInLanes ? first : 1;
}

size_t convolution_length(size_t n) {
  size_t m = 1;
  while (m < 2 * n - 1) {
    m *= 2;
  }
  return m;
}

}  // namespace et::kernels::optimized::fft
