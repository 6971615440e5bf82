// aten::_softmax and aten::_log_softmax along any dimension: rows that are contiguous, or columns side by side; in floats, which
// tensors of 16-bit floats are converted to.

#include "kernels/optimized/targets.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/float_tensors.h"
#include "kernels/optimized/math-inl.h"
#include "kernels/optimized/tables.h"
#include "kernels/optimized/vectors-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

/// y[i] = e^(x[i] - m), and their sum.
HWY_INLINE float exp_and_sum(const float* x, float* y, size_t n, float m) {
  const hn::ScalableTag<float> d;
  const auto vm = hn::Set(d, m);
  auto sum = hn::Zero(d);
  over_vectors(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto e = exp(d, hn::Sub(load(d, whole, x + i, left), vm));
    store(d, whole, e, y + i, left);
    sum = hn::Add(sum, decltype(whole)::value ? e : hn::IfThenElseZero(hn::FirstN(d, left), e));
  });
  return hn::ReduceSum(d, sum);
}

void SoftmaxRow(const float* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  const auto scale = hn::Set(d, 1.0f / exp_and_sum(x, y, n, max_of(x, n)));
  over_vectors(n, [&](auto whole, size_t i, size_t left)
                      HWY_ATTR { store(d, whole, hn::Mul(load(d, whole, y + i, left), scale), y + i, left); });
}

void LogSoftmaxRow(const float* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  const float m = max_of(x, n);
  const auto vm = hn::Set(d, m);
  const auto log_sum = hn::Set(d, std::log(exp_and_sum(x, y, n, m)));
  over_vectors(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    store(d, whole, hn::Sub(hn::Sub(load(d, whole, x + i, left), vm), log_sum), y + i, left);
  });
}

/// Columns [n, count] with `stride` floats from one row to the next: softmax along n for each of `count` columns.
void SoftmaxColumns(const float* x, float* y, size_t n, size_t count, size_t stride, bool log) {
  const hn::ScalableTag<float> d;
  over_vectors(count, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    auto m = load(d, whole, x + c, left);
    for (size_t i = 1; i < n; ++i) {
      const auto v = load(d, whole, x + i * stride + c, left);
      m = hn::IfThenElse(hn::Or(hn::Gt(v, m), hn::IsNaN(v)), v, m);
    }
    auto sum = hn::Zero(d);
    for (size_t i = 0; i < n; ++i) {
      const auto e = exp(d, hn::Sub(load(d, whole, x + i * stride + c, left), m));
      sum = hn::Add(sum, e);
      if (!log) {
        store(d, whole, e, y + i * stride + c, left);
      }
    }
    if (log) {
      HWY_ALIGN float sums[hn::MaxLanes(d)];
      hn::Store(sum, d, sums);
      for (size_t k = 0; k < left; ++k) {
        sums[k] = std::log(sums[k]);
      }
      const auto log_sum = hn::Load(d, sums);
      for (size_t i = 0; i < n; ++i) {
        const auto v = hn::Sub(hn::Sub(load(d, whole, x + i * stride + c, left), m), log_sum);
        store(d, whole, v, y + i * stride + c, left);
      }
      return;
    }
    const auto scale = hn::Div(hn::Set(d, 1.0f), sum);
    for (size_t i = 0; i < n; ++i) {
      store(d, whole, hn::Mul(load(d, whole, y + i * stride + c, left), scale), y + i * stride + c, left);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(LogSoftmaxRow);
HWY_EXPORT(SoftmaxColumns);

namespace {

Error softmax(KernelContext& context, const char* op, const Tensor& self, int64_t dim, const Tensor& out, bool log) {
  ET_RETURN_IF_ERROR(portable::normalize_dim(op, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  ET_TRY(const float* const x, floats_of(context, self));
  ET_TRY(float* const y, floats_for(context, out));
  const auto n = static_cast<size_t>(self.dim() == 0 ? 1 : self.size(dim));
  const auto inner = static_cast<size_t>(self.dim() == 0 ? 1 : self.stride(dim));
  const size_t outer = static_cast<size_t>(self.numel()) / (n * inner);
  constexpr size_t kCost = 8;  // per element, next to a copy
  if (inner == 1) {
    const auto row = log ? HWY_DYNAMIC_POINTER(LogSoftmaxRow) : HWY_DYNAMIC_POINTER(SoftmaxRow);
    threads::parallel_for(context.pool(), outer, threads::grain_for(kCost * n), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        row(x + r * n, y + r * n, n);
      }
    });
    write_floats(context, out, y);
    return Error::Ok;
  }
  const auto columns = HWY_DYNAMIC_POINTER(SoftmaxColumns);
  // Columns in pieces of kPiece, so that threads can share one wide block and rows stay in the cache.
  constexpr size_t kPiece = 64;
  const size_t pieces = (inner + kPiece - 1) / kPiece;
  threads::parallel_for(context.pool(), outer * pieces, threads::grain_for(kCost * n * kPiece),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end; ++i) {
                            const size_t first = i % pieces * kPiece;
                            const size_t at = i / pieces * n * inner + first;
                            columns(x + at, y + at, n, inner - first < kPiece ? inner - first : kPiece, inner, log);
                          }
                        });
  write_floats(context, out, y);
  return Error::Ok;
}

/// fn(self, dim, half_to_float, out): floats of up to 32 bits in one dim order.
bool fits_softmax(Arguments args) {
  return is_up_to_float(*args[0]) && is_up_to_float(*args[3]) && same_dim_order(*args[0], *args[3]);
}

Error softmax_out(KernelContext& context, const Tensor& self, int64_t dim, bool, Tensor& out) {
  return softmax(context, "aten::_softmax", self, dim, out, false);
}

Error log_softmax_out(KernelContext& context, const Tensor& self, int64_t dim, bool, Tensor& out) {
  return softmax(context, "aten::_log_softmax", self, dim, out, true);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&log_softmax_out, &fits_softmax>("aten::_log_softmax.out"),
    make_fitting_kernel<&softmax_out, &fits_softmax>("aten::_softmax.out"),
};

}  // namespace

Span<const Kernel> softmax_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
