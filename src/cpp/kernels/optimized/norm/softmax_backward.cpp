// What softmax and log_softmax pass back along any dimension, (grad - sum(grad * output)) * output or grad -
// exp(output) * sum(grad): rows that are contiguous, or columns side by side. Floats of up to 32 bits, of which those
// of 16 are converted a chunk at a time, and doubles. Sums of a chunk of a row are of the type computed in, those of
// chunks and of columns doubles.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include <hwy/contrib/math/math-inl.h>

#include "kernels/optimized/vec/domains-inl.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/lines.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/op_softmax_backward.h"
#include "kernels/portable/shape.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::norm::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <class D, class V = hn::Vec<D>>
HWY_INLINE V checked_exp(D d, V x) {
  if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
    return checked(
        d, x, -700.0, 700.0, [d](auto v) HWY_ATTR { return hn::Exp(d, v); },
        [](double v) HWY_ATTR { return std::exp(v); });
  } else {
    return exp(d, x);
  }
}

/// Sum of grad, times output where that is not nullptr.
template <class T>
T RowSum(const T* grad, const T* output, size_t n) {
  if (output == nullptr) {
    return sum_of([](auto v) HWY_ATTR { return v; }, grad, n);
  }
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto at = [&](size_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, grad + i), hn::LoadU(d, output + i)); };
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = hn::Add(s0, at(i));
    s1 = hn::Add(s1, at(i + lanes));
    s2 = hn::Add(s2, at(i + 2 * lanes));
    s3 = hn::Add(s3, at(i + 3 * lanes));
  }
  for (; i < n; i += lanes) {
    const size_t left = HWY_MIN(lanes, n - i);
    s0 = hn::Add(s0, hn::Mul(hn::LoadN(d, grad + i, left), hn::LoadN(d, output + i, left)));
  }
  return hn::ReduceSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

HWY_INLINE hn::Vec<hn::ScalableTag<double>> wide(const float* p, size_t left) {
  const hn::ScalableTag<double> d;
  return hn::PromoteTo(d, hn::LoadN(hn::Rebind<float, decltype(d)>(), p, left));
}
HWY_INLINE hn::Vec<hn::ScalableTag<double>> wide(const double* p, size_t left) {
  return hn::LoadN(hn::ScalableTag<double>(), p, left);
}

/// sums[i] += grad[i], times output[i] where that is not nullptr.
template <class T>
void AddColumns(const T* grad, const T* output, double* sums, size_t n) {
  const hn::ScalableTag<double> d;
  over_vectors<double>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto v = wide(grad + i, left);
    v = output == nullptr ? v : hn::Mul(v, wide(output + i, left));
    store(d, whole, hn::Add(load(d, whole, sums + i, left), v), sums + i, left);
  });
}

/// out = what is passed back, with a sum of its own for each element where `each` is true.
template <class T>
void PassBack(const T* grad, const T* output, T* out, size_t n, const T* sums, bool each, bool log) {
  const hn::ScalableTag<T> d;
  const auto one_sum = hn::Set(d, *sums);
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto sum = each ? load(d, whole, sums + i, left) : one_sum;
    const auto g = load(d, whole, grad + i, left);
    const auto y = load(d, whole, output + i, left);
    store(d, whole, log ? hn::Sub(g, hn::Mul(checked_exp(d, y), sum)) : hn::Mul(hn::Sub(g, sum), y), out + i, left);
  });
}

}  // namespace et::kernels::optimized::norm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::norm {
namespace {

/// The compiled functions for elements of type T.
template <typename T>
struct BackwardFunctions {
  T (*row_sum)(const T* grad, const T* output, size_t n);
  void (*add_columns)(const T* grad, const T* output, double* sums, size_t n);
  void (*apply)(const T* grad, const T* output, T* out, size_t n, const T* sums, bool each, bool log);
};
template <typename T>
BackwardFunctions<T> backward_functions() {
  HWY_EXPORT_T(Sum, RowSum<T>);
  HWY_EXPORT_T(Columns, AddColumns<T>);
  HWY_EXPORT_T(Back, PassBack<T>);
  return {HWY_DYNAMIC_POINTER_T(Sum), HWY_DYNAMIC_POINTER_T(Columns), HWY_DYNAMIC_POINTER_T(Back)};
}

constexpr size_t kChunk = 512;  // elements of a row at a time

/// One call: three dense tensors of one shape, order and type.
template <typename T>
class Backward {
 public:
  Backward(const Tensor& grad, const Tensor& output, const Tensor& out, bool log)
      : functions_(backward_functions<T>()), grad_(grad), output_(output), out_(out), log_(log) {}

  /// Rows of n elements from `first` on.
  void run_rows(size_t first, size_t rows, size_t n) const {
    for (size_t r = 0; r < rows; ++r) {
      run_row(first + r * n, n);
    }
  }
  void run_row(size_t first, size_t n) const {
    T grad[kChunk], output[kChunk], result[kChunk];
    double total = 0;
    for (size_t at = 0; at < n; at += kChunk) {
      const size_t count = std::min(kChunk, n - at);
      const T* const g = elements_of(grad_, first + at, count, grad);
      total += static_cast<double>(
          functions_.row_sum(g, log_ ? nullptr : elements_of(output_, first + at, count, output), count));
    }
    const T sum = static_cast<T>(total);
    for (size_t at = 0; at < n; at += kChunk) {
      write(first + at, std::min(kChunk, n - at), &sum, false, grad, output, result);
    }
  }

  /// `columns` columns (at most kLineColumns) of n rows that are `stride` apart.
  void run_columns(size_t first, size_t columns, size_t n, size_t stride) const {
    T grad[kLineColumns], output[kLineColumns], result[kLineColumns], sums[kLineColumns];
    double totals[kLineColumns] = {};
    for (size_t r = 0; r < n; ++r) {
      const T* const g = elements_of(grad_, first + r * stride, columns, grad);
      functions_.add_columns(g, log_ ? nullptr : elements_of(output_, first + r * stride, columns, output), totals,
                             columns);
    }
    std::copy_n(totals, columns, sums);
    for (size_t r = 0; r < n; ++r) {
      write(first + r * stride, columns, sums, true, grad, output, result);
    }
  }

 private:
  void write(size_t at, size_t n, const T* sums, bool each, T* grad, T* output, T* result) const {
    T* const to = elements_for(out_, at, result);
    functions_.apply(elements_of(grad_, at, n, grad), elements_of(output_, at, n, output), to, n, sums, each, log_);
    write_elements(out_, at, n, to);
  }

  BackwardFunctions<T> functions_;
  const Tensor& grad_;
  const Tensor& output_;
  const Tensor& out_;
  bool log_;
};

template <typename T>
void run(KernelContext& context, const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out, bool log) {
  const Backward<T> backward(grad, output, out, log);
  for_each_line(
      context, output, dim, log ? 8 : 3,
      [&](size_t first, size_t rows, size_t n) { backward.run_rows(first, rows, n); },
      [&](size_t first, size_t columns, size_t n, size_t stride) { backward.run_columns(first, columns, n, stride); });
}

/// False where the portable kernel is to refuse, or nothing is to be done.
bool is_plain(const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype, const Tensor& out) {
  const int64_t rank = std::max<int64_t>(output.dim(), 1);
  return equal(grad.sizes(), output.sizes()) && output.numel() > 0 && dim >= -rank && dim < rank &&
         input_dtype == out.scalar_type();
}

Error softmax_backward(KernelContext& context, const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out,
                       bool log) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, output.sizes()));
  dim += dim < 0 ? output.dim() : 0;
  if (output.scalar_type() == ScalarType::Double) {
    run<double>(context, grad, output, dim, out, log);
  } else {
    run<float>(context, grad, output, dim, out, log);
  }
  return Error::Ok;
}

Error softmax_backward_data_out(KernelContext& context, const Tensor& grad_output, const Tensor& output, int64_t dim,
                                ScalarType input_dtype, Tensor& grad_input) {
  return is_plain(grad_output, output, dim, input_dtype, grad_input)
             ? softmax_backward(context, grad_output, output, dim, grad_input, false)
             : portable::softmax_backward_data_out(context, grad_output, output, dim, input_dtype, grad_input);
}

Error log_softmax_backward_data_out(KernelContext& context, const Tensor& grad_output, const Tensor& output,
                                    int64_t dim, ScalarType input_dtype, Tensor& out) {
  return is_plain(grad_output, output, dim, input_dtype, out)
             ? softmax_backward(context, grad_output, output, dim, out, true)
             : portable::log_softmax_backward_data_out(context, grad_output, output, dim, input_dtype, out);
}

/// fn(grad_output, output, dim, input_dtype, out): floats or doubles of one type in one dim order.
bool fits_backward(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const auto fits = [&](const EValue& value) {
    return value.to_tensor().scalar_type() == dtype && same_dim_order(value, *args[0]);
  };
  return (is_up_to_float(dtype) || dtype == ScalarType::Double) && fits(*args[1]) && fits(*args[4]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&log_softmax_backward_data_out, &fits_backward>("aten::_log_softmax_backward_data.out"),
    make_fitting_kernel<&softmax_backward_data_out, &fits_backward>("aten::_softmax_backward_data.out"),
};

}  // namespace

ET_KERNEL_TABLE(softmax_backward, kKernels)

}  // namespace et::kernels::optimized::norm
#endif  // HWY_ONCE
