// aten::_softmax and aten::_log_softmax along any dimension: rows that are contiguous, or columns side by side; in
// doubles, or in floats, which tensors of 16-bit floats are converted to.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>
#include <type_traits>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/lines.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/offering.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/shape.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::norm::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// e^x for x <= 0 and NaN, which Highway's takes for a number below all.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of(D d, V x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
  } else {
    return exp(d, x);
  }
}

/// y[i] = e^(x[i] - m), and their sum.
template <class T>
HWY_INLINE T exp_and_sum(const T* x, T* y, size_t n, T m) {
  const hn::ScalableTag<T> d;
  const auto vm = hn::Set(d, m);
  auto sum = hn::Zero(d);
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto e = exp_of(d, hn::Sub(load(d, whole, x + i, left), vm));
    store(d, whole, e, y + i, left);
    sum = hn::Add(sum, decltype(whole)::value ? e : hn::IfThenElseZero(hn::FirstN(d, left), e));
  });
  return hn::ReduceSum(d, sum);
}

template <class T>
void SoftmaxRow(const T* x, T* y, size_t n) {
  const hn::ScalableTag<T> d;
  const auto scale = hn::Set(d, T(1) / exp_and_sum(x, y, n, max_of(x, n)));
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left)
                         HWY_ATTR { store(d, whole, hn::Mul(load(d, whole, y + i, left), scale), y + i, left); });
}

template <class T>
void LogSoftmaxRow(const T* x, T* y, size_t n) {
  const hn::ScalableTag<T> d;
  const T m = max_of(x, n);
  const auto vm = hn::Set(d, m);
  const auto log_sum = hn::Set(d, std::log(exp_and_sum(x, y, n, m)));
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    store(d, whole, hn::Sub(hn::Sub(load(d, whole, x + i, left), vm), log_sum), y + i, left);
  });
}

/// Columns [n, count] with `stride` floats from one row to the next: softmax along n for each of `count` columns.
template <class T>
void SoftmaxColumns(const T* x, T* y, size_t n, size_t count, size_t stride, bool log) {
  const hn::ScalableTag<T> d;
  over_vectors<T>(count, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    auto m = load(d, whole, x + c, left);
    for (size_t i = 1; i < n; ++i) {
      const auto v = load(d, whole, x + i * stride + c, left);
      m = hn::IfThenElse(hn::Or(hn::Gt(v, m), hn::IsNaN(v)), v, m);
    }
    auto sum = hn::Zero(d);
    for (size_t i = 0; i < n; ++i) {
      const auto e = exp_of(d, hn::Sub(load(d, whole, x + i * stride + c, left), m));
      sum = hn::Add(sum, e);
      if (!log) {
        store(d, whole, e, y + i * stride + c, left);
      }
    }
    if (log) {
      HWY_ALIGN T sums[hn::MaxLanes(d)];
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
    const auto scale = hn::Div(hn::Set(d, T(1)), sum);
    for (size_t i = 0; i < n; ++i) {
      store(d, whole, hn::Mul(load(d, whole, y + i * stride + c, left), scale), y + i * stride + c, left);
    }
  });
}

}  // namespace et::kernels::optimized::norm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::norm {

namespace {

/// Tensors of one shape and order, computed in T.
template <typename T>
Error softmax_lines(KernelContext& context, const Tensor& self, int64_t dim, bool log, const Tensor& out) {
  HWY_EXPORT_T(Row, SoftmaxRow<T>);
  HWY_EXPORT_T(LogRow, LogSoftmaxRow<T>);
  HWY_EXPORT_T(Columns, SoftmaxColumns<T>);
  ET_TRY(const T* const x, numbers_of<T>(context, self));
  ET_TRY(T* const y, numbers_for<T>(context, out));
  const auto row = log ? HWY_DYNAMIC_POINTER_T(LogRow) : HWY_DYNAMIC_POINTER_T(Row);
  const auto of_columns = HWY_DYNAMIC_POINTER_T(Columns);
  for_each_line(
      context, self, dim, 8, [&](size_t first, size_t n) { row(x + first, y + first, n); },
      [&](size_t first, size_t columns, size_t n, size_t stride) {
        of_columns(x + first, y + first, n, columns, stride, log);
      });
  write_numbers(context, out, y);
  return Error::Ok;
}

Error softmax(KernelContext& context, const char* op, const Tensor& self, int64_t dim, const Tensor& out, bool log) {
  ET_RETURN_IF_ERROR(portable::normalize_dim(op, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  return (self.scalar_type() == ScalarType::Double ? softmax_lines<double> : softmax_lines<float>)(context, self, dim,
                                                                                                   log, out);
}

/// fn(self, dim, half_to_float, out): floats of up to 32 bits, or doubles, in one dim order.
bool fits_softmax(Arguments args) {
  const auto is_double = [](const EValue& value) { return value.to_tensor().scalar_type() == ScalarType::Double; };
  const bool doubles = is_double(*args[0]) && is_double(*args[3]);
  return (doubles || (is_up_to_float(*args[0]) && is_up_to_float(*args[3]))) && same_dim_order(*args[0], *args[3]);
}

ops::Work work_of(Arguments args) {
  return {ops::WorkKind::softmax, ops::WorkNumbers::floating, static_cast<double>(args[0]->to_tensor().numel())};
}

Error softmax_out(KernelContext& context, const Tensor& self, int64_t dim, bool, Tensor& out) {
  return softmax(context, "aten::_softmax", self, dim, out, false);
}

Error log_softmax_out(KernelContext& context, const Tensor& self, int64_t dim, bool, Tensor& out) {
  return softmax(context, "aten::_log_softmax", self, dim, out, true);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&log_softmax_out, &fits_softmax>("aten::_log_softmax.out"),
    make_offering_kernel<&softmax_out, &fits_softmax, &work_of>("aten::_softmax.out"),
};

}  // namespace

ET_KERNEL_TABLE(softmax, kKernels)

}  // namespace et::kernels::optimized::norm
#endif  // HWY_ONCE
