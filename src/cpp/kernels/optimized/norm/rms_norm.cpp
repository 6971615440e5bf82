// Root mean square norm of rows of floats, 16-bit floats and doubles. A row is read twice while it is in the cache: its
// squares are summed, then it is scaled. Rows of 16-bit floats are converted a piece at a time, and what comes out is
// rounded once.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/optimized/vec/float_tensors.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::norm::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
T SumSquares(const T* x, size_t n) {
  return sum_of([](auto v) HWY_ATTR { return hn::Mul(v, v); }, x, n);
}

/// y = x * factor * weight[i]; weight may be nullptr.
template <class T>
void Scale(const T* x, T* y, size_t n, T factor, const T* weight) {
  const hn::ScalableTag<T> d;
  const auto f = hn::Set(d, factor);
  over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    auto v = hn::Mul(load(d, whole, x + i, left), f);
    if (weight != nullptr) {
      v = hn::Mul(v, load(d, whole, weight + i, left));
    }
    store(d, whole, v, y + i, left);
  });
}

}  // namespace et::kernels::optimized::norm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::norm {
namespace {

template <typename T>
Error normalize_rows(KernelContext& context, const Tensor& input, const OptionalTensor& weight, double eps,
                     const Tensor& out) {
  ET_TRY(const T* const w, numbers_of<T>(context, weight));
  HWY_EXPORT_T(Squares, SumSquares<T>);
  HWY_EXPORT_T(Scaled, Scale<T>);
  const auto squares_of = HWY_DYNAMIC_POINTER_T(Squares);
  const auto scale = HWY_DYNAMIC_POINTER_T(Scaled);
  constexpr size_t kPiece = 512;
  const auto columns = static_cast<size_t>(input.size(input.dim() - 1));
  const size_t rows = static_cast<size_t>(input.numel()) / columns;
  const size_t piece = input.scalar_type() == dtype_of<T> ? columns : kPiece;
  threads::parallel_for(context, rows, threads::grain_for(3 * columns), [&](size_t begin, size_t end) {
    T from[kPiece], to[kPiece];
    for (size_t at = begin * columns; at < end * columns; at += columns) {
      T squares = 0;
      for (size_t i = 0; i < columns; i += piece) {
        const size_t n = std::min(piece, columns - i);
        squares += squares_of(elements_of<T>(input, at + i, n, from), n);
      }
      const T factor = T(1) / std::sqrt(squares / static_cast<T>(columns) + static_cast<T>(eps));
      for (size_t i = 0; i < columns; i += piece) {
        const size_t n = std::min(piece, columns - i);
        T* const y = elements_for<T>(out, at + i, to);
        scale(elements_of<T>(input, at + i, n, from), y, n, factor, w == nullptr ? nullptr : w + i);
        write_elements<T>(out, at + i, n, y);
      }
    }
  });
  return Error::Ok;
}

Error rms_norm_out(KernelContext& context, const Tensor& input, const OptionalTensor& weight, double eps, Tensor& out) {
  const int64_t columns = input.size(input.dim() - 1);
  ET_CHECK_OR_RETURN(!weight || weight->numel() == columns, InvalidArgument,
                     "et::rms_norm: weight has %" PRId64 " elements, needs %" PRId64, weight->numel(), columns);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  if (input.numel() == 0) {
    return Error::Ok;
  }
  const auto normalize = input.scalar_type() == ScalarType::Double ? &normalize_rows<double> : &normalize_rows<float>;
  return normalize(context, input, weight, eps, out);
}

/// rms_norm(input, weight, eps, out): rows side by side; a weight that T holds.
bool fits_rms_norm(Arguments args) {
  const auto dtype_at = [&](size_t i) { return args[i]->to_tensor().scalar_type(); };
  const ScalarType dtype = dtype_at(0);
  const bool is_double = dtype == ScalarType::Double;
  const bool fits_weight =
      args[1]->is_none() || (is_double ? dtype_at(1) == ScalarType::Double : is_up_to_float(dtype_at(1)));
  return (is_double || is_up_to_float(dtype)) && dtype_at(3) == dtype && fits_weight &&
         args[0]->to_tensor().dim() > 0 && is_row_major(*args[0]) && is_row_major(*args[3]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&rms_norm_out, &fits_rms_norm, 0b1>("et::rms_norm.out"),
};

}  // namespace

ET_KERNEL_TABLE(rms_norm, kKernels)

}  // namespace et::kernels::optimized::norm
#endif  // HWY_ONCE
