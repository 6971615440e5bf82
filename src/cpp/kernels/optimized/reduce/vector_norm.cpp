// linalg_vector_norm of order 2, of floats of 16 to 64 bits, over dimensions that lie side by side in memory: squares
// are summed in double in one pass.
//
// The tensor is seen as [outer, length, inner] as in reduce.cpp.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimized/reduce/reduction_shape.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

using DoubleTag = hn::ScalableTag<double>;

/// `count` elements from p on as doubles, zeros behind them.
HWY_INLINE hn::Vec<DoubleTag> doubles_at(const double* p, size_t count) {
  const DoubleTag d;
  return count == hn::Lanes(d) ? hn::LoadU(d, p) : hn::LoadN(d, p, count);
}
HWY_INLINE hn::Vec<DoubleTag> doubles_at(const float* p, size_t count) {
  const DoubleTag d;
  const hn::Rebind<float, DoubleTag> df;
  return hn::PromoteTo(d, count == hn::Lanes(d) ? hn::LoadU(df, p) : hn::LoadN(df, p, count));
}

template <typename T>
HWY_INLINE double squares_of_row(const T* x, size_t n) {
  const DoubleTag d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto v0 = doubles_at(x + i, lanes), v1 = doubles_at(x + i + lanes, lanes);
    const auto v2 = doubles_at(x + i + 2 * lanes, lanes), v3 = doubles_at(x + i + 3 * lanes, lanes);
    s0 = hn::MulAdd(v0, v0, s0);
    s1 = hn::MulAdd(v1, v1, s1);
    s2 = hn::MulAdd(v2, v2, s2);
    s3 = hn::MulAdd(v3, v3, s3);
  }
  for (; i < n; i += lanes) {
    const auto v = doubles_at(x + i, HWY_MIN(lanes, n - i));
    s0 = hn::MulAdd(v, v, s0);
  }
  return hn::ReduceSum(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

/// sums[c] += the squares of `rows` elements that are `stride` apart, for `columns` columns.
template <typename T>
HWY_INLINE void add_squares(const T* x, double* sums, size_t rows, size_t columns, size_t stride) {
  const DoubleTag d;
  const size_t lanes = hn::Lanes(d);
  for (size_t r = 0; r < rows; ++r) {
    const T* const row = x + r * stride;
    for (size_t c = 0; c < columns; c += lanes) {
      const size_t count = HWY_MIN(lanes, columns - c);
      const auto v = doubles_at(row + c, count);
      if (count == lanes) {
        hn::StoreU(hn::MulAdd(v, v, hn::LoadU(d, sums + c)), d, sums + c);
      } else {
        hn::StoreN(hn::MulAdd(v, v, hn::LoadN(d, sums + c, count)), d, sums + c, count);
      }
    }
  }
}

double RowSquaresFloat(const float* x, size_t n) { return squares_of_row(x, n); }
double RowSquaresDouble(const double* x, size_t n) { return squares_of_row(x, n); }
void ColumnSquaresFloat(const float* x, double* sums, size_t rows, size_t columns, size_t stride) {
  add_squares(x, sums, rows, columns, stride);
}
void ColumnSquaresDouble(const double* x, double* sums, size_t rows, size_t columns, size_t stride) {
  add_squares(x, sums, rows, columns, stride);
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(RowSquaresFloat);
HWY_EXPORT(RowSquaresDouble);
HWY_EXPORT(ColumnSquaresFloat);
HWY_EXPORT(ColumnSquaresDouble);

namespace {

template <typename T>
struct SquareLoops {
  double (*row)(const T* x, size_t n);
  void (*columns)(const T* x, double* sums, size_t rows, size_t columns, size_t stride);
};
template <typename T>
SquareLoops<T> square_loops() {
  if constexpr (std::is_same_v<T, float>) {
    return {HWY_DYNAMIC_POINTER(RowSquaresFloat), HWY_DYNAMIC_POINTER(ColumnSquaresFloat)};
  } else {
    return {HWY_DYNAMIC_POINTER(RowSquaresDouble), HWY_DYNAMIC_POINTER(ColumnSquaresDouble)};
  }
}

/// Walks over the input as for_each_piece and for_each_block do, in doubles as they are; and results of one or the
/// other type.
template <typename T>
struct Numbers {
  template <typename F>
  static void for_each_run(const Tensor& x, size_t first, size_t count, F&& f) {
    for_each_piece(x, first, count, f);
  }
  template <typename F>
  static void for_each_rows(const Tensor& x, size_t first, size_t columns, const ReductionShape& shape, F&& f) {
    for_each_block(x, first, columns, shape.length, shape.inner, f);
  }
  static void store(const Tensor& out, size_t at, double value) {
    const auto rounded = static_cast<float>(value);
    store_floats(out, at, &rounded, 1);
  }
};
template <>
struct Numbers<double> {
  template <typename F>
  static void for_each_run(const Tensor& x, size_t first, size_t count, F&& f) {
    f(x.const_data_ptr<double>() + first, count);
  }
  template <typename F>
  static void for_each_rows(const Tensor& x, size_t first, size_t, const ReductionShape& shape, F&& f) {
    f(x.const_data_ptr<double>() + first, shape.length, shape.inner);
  }
  static void store(const Tensor& out, size_t at, double value) { out.mutable_data_ptr<double>()[at] = value; }
};

/// T: what the input is read as.
template <typename T>
void norms(KernelContext& context, const ReductionShape& shape, const Tensor& x, const Tensor& out) {
  const SquareLoops<T> loops = square_loops<T>();
  if (shape.inner == 1) {
    threads::parallel_for(context.pool(), shape.outer, threads::grain_for(shape.length), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        double sum = 0;
        Numbers<T>::for_each_run(x, r * shape.length, shape.length,
                                 [&](const T* run, size_t n) { sum += loops.row(run, n); });
        Numbers<T>::store(out, r, std::sqrt(sum));
      }
    });
    return;
  }
  const size_t pieces = (shape.inner + kPieceColumns - 1) / kPieceColumns;
  const size_t work = shape.length * std::min(shape.inner, kPieceColumns);
  threads::parallel_for(context.pool(), shape.outer * pieces, threads::grain_for(work), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      double sums[kPieceColumns] = {};
      const size_t at = i % pieces * kPieceColumns;
      const size_t columns = std::min(shape.inner - at, kPieceColumns);
      Numbers<T>::for_each_rows(
          x, i / pieces * shape.length * shape.inner + at, columns, shape,
          [&](const T* rows, size_t count, size_t stride) { loops.columns(rows, sums, count, columns, stride); });
      for (size_t c = 0; c < columns; ++c) {
        Numbers<T>::store(out, i / pieces * shape.inner + at + c, std::sqrt(sums[c]));
      }
    }
  });
}

Error linalg_vector_norm_out(KernelContext& context, const Tensor& self, const Scalar&, std::optional<IntArrayRef> dim,
                             bool keepdim, std::optional<ScalarType>, Tensor& out) {
  ReductionShape shape;
  ET_RETURN_IF_ERROR(shape_reduction(context, "aten::linalg_vector_norm", self, dims_of(dim), keepdim, out, &shape));
  if (self.scalar_type() == ScalarType::Double) {
    norms<double>(context, shape, self, out);
  } else {
    norms<float>(context, shape, self, out);
  }
  return Error::Ok;
}

/// linalg_vector_norm(self, ord, dim, keepdim, dtype, out)
bool fits_norm(Arguments args) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  return (is_up_to_float(dtype) || dtype == ScalarType::Double) && args[5]->to_tensor().scalar_type() == dtype &&
         args[1]->number_as_double() == 2.0 &&
         fits_reduction_layout(*args[0], dims_of(*args[2]), args[3]->number_as_bool(), *args[5]);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&linalg_vector_norm_out, &fits_norm>("aten::linalg_vector_norm.out"),
};

}  // namespace

ET_KERNEL_TABLE(vector_norm, kKernels)

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
