// aten::_softmax and aten::_log_softmax along any dimension: rows that are contiguous, or columns side by side; in
// doubles, or in floats, which tensors of 16-bit floats are converted to.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>

#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/lines.h"
#include "kernels/optimized/vec/offering.h"
#include "kernels/optimized/vec/softmax-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/shape.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::norm::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// `rows` rows of n elements, one behind the other.
template <class T>
void SoftmaxRows(const T* x, T* y, size_t rows, size_t n, bool log) {
  const hn::ScalableTag<T> d;
  for (size_t r = 0; r < rows; ++r, x += n, y += n) {
    const T m = largest_number(x, n);
    if (log) {
      const auto vm = hn::Set(d, m);
      const auto log_sum = hn::Set(d, std::log(sum_of_powers<false>(x, y, n, m)));
      over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
        store(d, whole, hn::Sub(hn::Sub(load(d, whole, x + i, left), vm), log_sum), y + i, left);
      });
    } else {
      const auto scale = hn::Set(d, T(1) / sum_of_powers<true>(x, y, n, m));
      over_vectors<T>(n, [&](auto whole, size_t i, size_t left)
                             HWY_ATTR { store(d, whole, hn::Mul(load(d, whole, y + i, left), scale), y + i, left); });
    }
  }
}

/// Softmax along n rows that are `stride` apart, for kVectors vectors of columns; whole: else the first `left` columns
/// of one vector.
template <size_t kVectors, class Whole, class T>
HWY_INLINE void softmax_of_columns(Whole whole, const T* x, T* y, size_t n, size_t stride, size_t left, bool log) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  V m[kVectors], sum[kVectors];
  for (size_t k = 0; k < kVectors; ++k) {
    m[k] = hn::Set(d, -std::numeric_limits<T>::infinity());
    sum[k] = hn::Zero(d);
  }
  for (size_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) {
      m[k] = hn::Max(load(d, whole, x + i * stride + k * lanes, left), m[k]);
    }
  }
  for (size_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) {
      const size_t at = i * stride + k * lanes;
      const V e = exp_below_one(d, hn::Sub(load(d, whole, x + at, left), m[k]));
      sum[k] = hn::Add(sum[k], e);
      if (!log) {
        store(d, whole, e, y + at, left);
      }
    }
  }
  for (size_t k = 0; k < kVectors; ++k) {
    if (log) {
      HWY_ALIGN T sums[hn::MaxLanes(d)];
      hn::Store(sum[k], d, sums);
      for (size_t j = 0; j < HWY_MIN(left, lanes); ++j) {
        sums[j] = std::log(sums[j]);
      }
      sum[k] = hn::Load(d, sums);
    } else {
      sum[k] = hn::Div(hn::Set(d, T(1)), sum[k]);
    }
  }
  for (size_t i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (size_t k = 0; k < kVectors; ++k) {
      const size_t at = i * stride + k * lanes;
      const V v = log ? hn::Sub(hn::Sub(load(d, whole, x + at, left), m[k]), sum[k])
                      : hn::Mul(load(d, whole, y + at, left), sum[k]);
      store(d, whole, v, y + at, left);
    }
  }
}

/// Columns [n, count] with `stride` floats from one row to the next: softmax along n for each of `count` columns.
template <class T>
void SoftmaxColumns(const T* x, T* y, size_t n, size_t count, size_t stride, bool log) {
  constexpr size_t kVectors = 4;
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  size_t c = 0;
  for (; c + kVectors * lanes <= count; c += kVectors * lanes) {
    softmax_of_columns<kVectors>(std::true_type(), x + c, y + c, n, stride, lanes, log);
  }
  over_vectors<T>(count - c, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    softmax_of_columns<1>(whole, x + c + i, y + c + i, n, stride, left, log);
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
  HWY_EXPORT_T(Rows, SoftmaxRows<T>);
  HWY_EXPORT_T(Columns, SoftmaxColumns<T>);
  ET_TRY(const T* const x, numbers_of<T>(context, self));
  ET_TRY(T* const y, numbers_for<T>(context, out));
  const auto of_rows = HWY_DYNAMIC_POINTER_T(Rows);
  const auto of_columns = HWY_DYNAMIC_POINTER_T(Columns);
  for_each_line(
      context, self, dim, 8, [&](size_t first, size_t rows, size_t n) { of_rows(x + first, y + first, rows, n, log); },
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
