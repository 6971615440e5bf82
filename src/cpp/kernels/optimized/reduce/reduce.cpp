// Reductions over dimensions that lie side by side in memory: sum, mean, prod, amax, amin, max, min, var, std; global
// average pooling.
//
// The tensor is seen as [outer, length, inner] with the reduced dimensions in the middle. inner == 1: rows are reduced
// to numbers. Otherwise rows of `inner` are added up, which is how channels-last images are averaged. 16-bit floats are
// converted a piece at a time and rounded once.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/optimized/reduce/reduction_shape.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

float SumRow(const float* x, size_t n) {
  return sum_of([](auto v) HWY_ATTR { return v; }, x, n);
}

float MaxRow(const float* x, size_t n) { return max_of(x, n); }

float MinRow(const float* x, size_t n) { return min_of(x, n); }

float ProdRow(const float* x, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1.0f);
  auto p0 = one, p1 = one;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    p0 = hn::Mul(p0, hn::LoadU(d, x + i));
    p1 = hn::Mul(p1, hn::LoadU(d, x + i + lanes));
  }
  for (; i < n; i += lanes) {
    const size_t left = HWY_MIN(lanes, n - i);
    p0 = hn::Mul(p0, hn::IfThenElse(hn::FirstN(d, left), hn::LoadN(d, x + i, left), one));
  }
  HWY_ALIGN float each[hn::MaxLanes(d)];
  hn::Store(hn::Mul(p0, p1), d, each);
  float product = each[0];
  for (size_t k = 1; k < lanes; ++k) {
    product *= each[k];
  }
  return product;
}

void ProdColumns(const float* x, float* y, size_t n, size_t count, size_t stride) {
  fold_columns([](auto product, auto v) HWY_ATTR { return hn::Mul(product, v); }, x, y, n, count, stride);
}

/// Sum of squared deviations from `center`.
float DeviationRow(const float* x, size_t n, float center) {
  const hn::ScalableTag<float> d;
  const auto mean = hn::Set(d, center);
  return sum_of(
      [mean](auto v) HWY_ATTR {
        const auto deviation = hn::Sub(v, mean);
        return hn::Mul(deviation, deviation);
      },
      x, n);
}

/// y[c] = sum over n rows, for `count` columns of rows that are `stride` apart. Four rows are added before they meet
/// the sum, which halves the traffic and the rounding error.
void SumColumns(const float* x, float* y, size_t n, size_t count, size_t stride) {
  const hn::ScalableTag<float> d;
  over_vectors(count, [&](auto whole, size_t c, size_t left) HWY_ATTR {
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    const float* row = x + c;
    size_t i = 0;
    for (; i + 4 <= n; i += 4, row += 4 * stride) {
      s0 = hn::Add(s0, load(d, whole, row, left));
      s1 = hn::Add(s1, load(d, whole, row + stride, left));
      s2 = hn::Add(s2, load(d, whole, row + 2 * stride, left));
      s3 = hn::Add(s3, load(d, whole, row + 3 * stride, left));
    }
    for (; i < n; ++i, row += stride) {
      s0 = hn::Add(s0, load(d, whole, row, left));
    }
    store(d, whole, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), y + c, left);
  });
}

void ExtremeColumns(const float* x, float* y, size_t n, size_t count, size_t stride, bool largest) {
  const auto fold = [&](auto better) HWY_ATTR {
    fold_columns([&](auto m, auto v) HWY_ATTR { return hn::IfThenElse(hn::Or(better(v, m), hn::IsNaN(v)), v, m); }, x,
                 y, n, count, stride);
  };
  if (largest) {
    fold([](auto v, auto m) HWY_ATTR { return hn::Gt(v, m); });
  } else {
    fold([](auto v, auto m) HWY_ATTR { return hn::Lt(v, m); });
  }
}

void ScaleInPlace(float* x, size_t n, float factor) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  over_vectors(n, [&](auto whole, size_t i, size_t left)
                      HWY_ATTR { store(d, whole, hn::Mul(load(d, whole, x + i, left), f), x + i, left); });
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(SumRow);
HWY_EXPORT(MaxRow);
HWY_EXPORT(MinRow);
HWY_EXPORT(ProdRow);
HWY_EXPORT(ProdColumns);
HWY_EXPORT(DeviationRow);
HWY_EXPORT(SumColumns);
HWY_EXPORT(ExtremeColumns);
HWY_EXPORT(ScaleInPlace);

namespace {

enum class Reduction { kSum, kMean, kProd, kMax, kMin, kVariance, kDeviation };

bool is_extreme(Reduction what) { return what == Reduction::kMax || what == Reduction::kMin; }

bool is_variance(Reduction what) { return what == Reduction::kVariance || what == Reduction::kDeviation; }

/// Sum of squared deviations from the mean, in double.
double squares_in_double(const Tensor& self, size_t first, size_t count) {
  double sum = 0, squares = 0;
  for_each_piece(self, first, count, [&](const float* x, size_t n) { sum = std::accumulate(x, x + n, sum); });
  const double mean = sum / static_cast<double>(count);
  for_each_piece(self, first, count, [&](const float* x, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      squares += (x[i] - mean) * (x[i] - mean);
    }
  });
  return squares;
}

/// The variance or standard deviation of `count` elements from element `first` on. Sums that a float does not hold are
/// made again in double: the mean of large numbers is a float all the same, and so is the root of their variance.
float variance_of_row(const Tensor& self, size_t first, size_t count, Reduction what, float divisor) {
  const auto sum_row = HWY_DYNAMIC_POINTER(SumRow);
  const auto deviation = HWY_DYNAMIC_POINTER(DeviationRow);
  float sum = 0.0f, squares = 0.0f;
  for_each_piece(self, first, count, [&](const float* x, size_t n) { sum += sum_row(x, n); });
  const float mean = sum / static_cast<float>(count);
  for_each_piece(self, first, count, [&](const float* x, size_t n) { squares += deviation(x, n, mean); });
  const bool root = what == Reduction::kDeviation;
  constexpr float kSmall = 1e-30f;  // below, squares of single deviations are no normal floats
  if (squares <= std::numeric_limits<float>::max() && (!root || squares >= kSmall)) {
    return root ? std::sqrt(squares / divisor) : squares / divisor;
  }
  const double exact = squares_in_double(self, first, count) / static_cast<double>(divisor);
  return static_cast<float>(root ? std::sqrt(exact) : exact);
}

/// The reduction of `count` elements from element `first` on.
float reduce_row(const Tensor& self, size_t first, size_t count, Reduction what, float divisor) {
  const auto sum_of_pieces = [&] {
    float sum = 0.0f;
    const auto sum_row = HWY_DYNAMIC_POINTER(SumRow);
    for_each_piece(self, first, count, [&](const float* x, size_t n) { sum += sum_row(x, n); });
    return sum;
  };
  switch (what) {
    case Reduction::kSum: return sum_of_pieces();
    case Reduction::kMean: return sum_of_pieces() / divisor;
    case Reduction::kProd: {
      float product = 1.0f;
      const auto prod_row = HWY_DYNAMIC_POINTER(ProdRow);
      for_each_piece(self, first, count, [&](const float* x, size_t n) { product *= prod_row(x, n); });
      return product;
    }
    case Reduction::kMax:
    case Reduction::kMin: {
      const bool largest = what == Reduction::kMax;
      const auto row = largest ? HWY_DYNAMIC_POINTER(MaxRow) : HWY_DYNAMIC_POINTER(MinRow);
      float best = largest ? -INFINITY : INFINITY;
      for_each_piece(self, first, count, [&](const float* x, size_t n) {
        const float value = row(x, n);
        best = (largest ? value > best : value < best) || value != value ? value : best;
      });
      return best;
    }
    default: return variance_of_row(self, first, count, what, divisor);
  }
}

/// The reductions of `columns` columns from element `first` on, to y.
void reduce_columns(const Tensor& self, size_t first, size_t columns, const ReductionShape& shape, Reduction what,
                    float divisor, float* y) {
  const auto sum = HWY_DYNAMIC_POINTER(SumColumns);
  const auto prod = HWY_DYNAMIC_POINTER(ProdColumns);
  const auto extreme = HWY_DYNAMIC_POINTER(ExtremeColumns);
  const auto combine = [&](const float* x, float* to, size_t rows, size_t stride) {
    if (is_extreme(what)) {
      extreme(x, to, rows, columns, stride, what == Reduction::kMax);
    } else if (what == Reduction::kProd) {
      prod(x, to, rows, columns, stride);
    } else {
      sum(x, to, rows, columns, stride);
    }
  };
  alignas(64) float pair[2 * kPieceColumns];  // what came before, and the next block
  bool started = false;
  for_each_block(self, first, columns, shape.length, shape.inner, [&](const float* x, size_t rows, size_t stride) {
    combine(x, started ? pair + kPieceColumns : pair, rows, stride);
    if (started) {
      combine(pair, y, 2, kPieceColumns);
      std::memcpy(pair, y, columns * sizeof(float));
    }
    started = true;
  });
  std::memcpy(y, pair, columns * sizeof(float));
  if (what == Reduction::kMean) {
    HWY_DYNAMIC_DISPATCH(ScaleInPlace)(y, columns, 1.0f / divisor);
  }
}

Error reduce(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
             const Tensor& out, Reduction what, double correction = 0) {
  ReductionShape shape;
  ET_RETURN_IF_ERROR(shape_reduction(context, op, self, dims, keepdim, out, &shape));
  const auto results = static_cast<size_t>(out.numel());
  if (results == 0) {
    return Error::Ok;
  }
  if (shape.length == 0) {
    ET_CHECK_OR_RETURN(!is_extreme(what), InvalidArgument, "%s: the dimension to reduce has no elements", op);
    const float value = what == Reduction::kSum ? 0.0f : what == Reduction::kProd ? 1.0f : NAN;
    for (size_t i = 0; i < results; ++i) {
      store_floats(out, i, &value, 1);
    }
    return Error::Ok;
  }
  const auto count = static_cast<float>(shape.length);
  const auto left = static_cast<float>(static_cast<double>(shape.length) - correction);
  const float divisor = is_variance(what) ? (left > 0 ? left : 0.0f) : count;
  if (shape.inner == 1) {
    threads::parallel_for(context.pool(), shape.outer, threads::grain_for(shape.length), [&](size_t begin, size_t end) {
      constexpr size_t kResults = 64;
      float values[kResults];
      for (size_t r = begin; r < end; r += kResults) {
        const size_t n = end - r < kResults ? end - r : kResults;
        for (size_t i = 0; i < n; ++i) {
          values[i] = reduce_row(self, (r + i) * shape.length, shape.length, what, divisor);
        }
        store_floats(out, r, values, n);
      }
    });
    return Error::Ok;
  }
  const size_t pieces = (shape.inner + kPieceColumns - 1) / kPieceColumns;
  const size_t width = shape.inner < kPieceColumns ? shape.inner : kPieceColumns;
  threads::parallel_for(context.pool(), shape.outer * pieces, threads::grain_for(shape.length * width),
                        [&](size_t begin, size_t end) {
                          alignas(64) float values[kPieceColumns];
                          for (size_t i = begin; i < end; ++i) {
                            const size_t at = i % pieces * kPieceColumns;
                            const size_t columns = std::min(shape.inner - at, kPieceColumns);
                            const size_t first = i / pieces * shape.length * shape.inner + at;
                            reduce_columns(self, first, columns, shape, what, divisor, values);
                            store_floats(out, i / pieces * shape.inner + at, values, columns);
                          }
                        });
  return Error::Ok;
}

Error mean_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim, bool keepdim,
               std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::mean", self, dims_of(dim), keepdim, out, Reduction::kMean);
}

Error sum_intlist_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim, bool keepdim,
                      std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::sum", self, dims_of(dim), keepdim, out, Reduction::kSum);
}

Error amax_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return reduce(context, "aten::amax", self, dim, keepdim, out, Reduction::kMax);
}

Error amin_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return reduce(context, "aten::amin", self, dim, keepdim, out, Reduction::kMin);
}

Error var_correction_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim,
                         std::optional<Scalar> correction, bool keepdim, Tensor& out) {
  return reduce(context, "aten::var", self, dims_of(dim), keepdim, out, Reduction::kVariance,
                correction ? correction->to<double>() : 1.0);
}

Error std_correction_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim,
                         std::optional<Scalar> correction, bool keepdim, Tensor& out) {
  return reduce(context, "aten::std", self, dims_of(dim), keepdim, out, Reduction::kDeviation,
                correction ? correction->to<double>() : 1.0);
}

Error mean_dtype_out(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::mean", self, {}, false, out, Reduction::kMean);
}

Error sum_out(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::sum", self, {}, false, out, Reduction::kSum);
}

Error prod_out(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::prod", self, {}, false, out, Reduction::kProd);
}

Error prod_int_out(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType>,
                   Tensor& out) {
  return reduce(context, "aten::prod", self, {dim}, keepdim, out, Reduction::kProd);
}

Error max_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return reduce(context, "aten::max", self, {}, false, out, Reduction::kMax);
}

Error min_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return reduce(context, "aten::min", self, {}, false, out, Reduction::kMin);
}

Error adaptive_avg_pool2d_out(KernelContext& context, const Tensor& self, IntArrayRef, Tensor& out) {
  return reduce(context, "aten::_adaptive_avg_pool2d", self, {-2, -1}, true, out, Reduction::kMean);
}

/// Rows only: var and std(self, dim, correction, keepdim, out)
bool fits_variance(Arguments args) {
  return fits_reduction(*args[0], dims_of(*args[1]), args[3]->number_as_bool(), *args[4]) &&
         reduces_rows(args[0]->to_tensor(), dims_of(*args[1]));
}

/// One average for each image and channel: _adaptive_avg_pool2d(self, output_size, out)
bool fits_global_pool(Arguments args) {
  const IntArrayRef size = args[1]->to_int_list();
  const bool one = !size.empty() && size.front() == 1 && size.back() == 1;
  return one && args[0]->is_tensor() && args[0]->to_tensor().dim() >= 3 &&
         fits_reduction(*args[0], {-2, -1}, true, *args[2]);
}

constexpr Kernel kKernels[] = {
    at_priority(kPriorityWholeImages,
                make_fitting_kernel<&adaptive_avg_pool2d_out, &fits_global_pool>("aten::_adaptive_avg_pool2d.out")),
    make_fitting_kernel<&amax_out, &fits_dims<fits_reduction>>("aten::amax.out"),
    make_fitting_kernel<&amin_out, &fits_dims<fits_reduction>>("aten::amin.out"),
    make_fitting_kernel<&max_unary_out, &fits_all<fits_reduction>>("aten::max.unary_out"),
    make_fitting_kernel<&mean_dtype_out, &fits_all<fits_reduction>>("aten::mean.dtype_out"),
    make_fitting_kernel<&mean_out, &fits_dims<fits_reduction>>("aten::mean.out"),
    make_fitting_kernel<&min_unary_out, &fits_all<fits_reduction>>("aten::min.unary_out"),
    make_fitting_kernel<&prod_int_out, &fits_one_dim<fits_reduction>>("aten::prod.int_out"),
    make_fitting_kernel<&prod_out, &fits_all<fits_reduction>>("aten::prod.out"),
    make_fitting_kernel<&std_correction_out, &fits_variance>("aten::std.correction_out"),
    make_fitting_kernel<&sum_intlist_out, &fits_dims<fits_reduction>>("aten::sum.IntList_out"),
    make_fitting_kernel<&sum_out, &fits_all<fits_reduction>>("aten::sum.out"),
    make_fitting_kernel<&var_correction_out, &fits_variance>("aten::var.correction_out"),
};

}  // namespace

ET_KERNEL_TABLE(reduce, kKernels)

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
