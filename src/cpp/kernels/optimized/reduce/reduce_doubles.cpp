// Reductions of doubles over dimensions that lie side by side in memory: sum, mean, prod, amax, amin, max, min.
//
// The tensor is seen as [outer, length, inner] as in reduce.cpp.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimized/reduce/reduction_shape.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_REDUCE_DOUBLES_ONCE
#define ET_KERNELS_OPTIMIZED_REDUCE_DOUBLES_ONCE
namespace et::kernels::optimized::reduce {
/// The loops of one reduction; n and rows are at least 1.
struct DoubleLoops {
  /// The reduction of n elements.
  double (*row)(const double* x, size_t n);
  /// y[c] = the reduction of `rows` elements that are `stride` apart, for `columns` columns.
  void (*columns)(const double* x, double* y, size_t rows, size_t columns, size_t stride);
};
enum class DoubleReduction { kSum, kMean, kProd, kMax, kMin };
}  // namespace et::kernels::optimized::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

struct DoubleSum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct DoubleProd {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};
/// Not a number on either side is the result.
struct DoubleMax {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
};
struct DoubleMin {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
};

template <class Combine>
double FoldRow(const double* x, size_t n) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> one;
  const Combine combine;
  const size_t lanes = hn::Lanes(d);
  auto total = hn::Set(one, x[0]);
  size_t i = 1;
  if (n >= 4 * lanes) {
    auto v0 = hn::LoadU(d, x), v1 = hn::LoadU(d, x + lanes);
    auto v2 = hn::LoadU(d, x + 2 * lanes), v3 = hn::LoadU(d, x + 3 * lanes);
    for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
      v0 = combine(v0, hn::LoadU(d, x + i));
      v1 = combine(v1, hn::LoadU(d, x + i + lanes));
      v2 = combine(v2, hn::LoadU(d, x + i + 2 * lanes));
      v3 = combine(v3, hn::LoadU(d, x + i + 3 * lanes));
    }
    HWY_ALIGN double each[hn::MaxLanes(d)];
    hn::Store(combine(combine(v0, v1), combine(v2, v3)), d, each);
    total = hn::Set(one, each[0]);
    for (size_t k = 1; k < lanes; ++k) {
      total = combine(total, hn::Set(one, each[k]));
    }
  }
  for (; i < n; ++i) {
    total = combine(total, hn::Set(one, x[i]));
  }
  return hn::GetLane(total);
}

template <class Combine>
void FoldColumns(const double* x, double* y, size_t rows, size_t columns, size_t stride) {
  fold_columns(Combine(), x, y, rows, columns, stride);
}

DoubleLoops LoopsOfDoubles(DoubleReduction what) {
  switch (what) {
    case DoubleReduction::kSum:
    case DoubleReduction::kMean: return {&FoldRow<DoubleSum>, &FoldColumns<DoubleSum>};
    case DoubleReduction::kProd: return {&FoldRow<DoubleProd>, &FoldColumns<DoubleProd>};
    case DoubleReduction::kMax: return {&FoldRow<DoubleMax>, &FoldColumns<DoubleMax>};
    default: return {&FoldRow<DoubleMin>, &FoldColumns<DoubleMin>};
  }
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(LoopsOfDoubles);

namespace {

/// The reduction of nothing; extremes have none.
double of_nothing(DoubleReduction what) {
  return what == DoubleReduction::kSum ? 0.0 : what == DoubleReduction::kProd ? 1.0 : NAN;
}

Error reduce(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
             const Tensor& out, DoubleReduction what) {
  ReductionShape shape;
  ET_RETURN_IF_ERROR(shape_reduction(context, op, self, dims, keepdim, out, &shape));
  const bool is_extreme = what == DoubleReduction::kMax || what == DoubleReduction::kMin;
  ET_CHECK_OR_RETURN(shape.length > 0 || out.numel() == 0 || !is_extreme, InvalidArgument,
                     "%s: the dimension to reduce has no elements", op);
  auto* const y = static_cast<double*>(out.mutable_data_ptr());
  if (shape.length == 0 || out.numel() == 0) {
    std::fill_n(y, out.numel(), of_nothing(what));
    return Error::Ok;
  }
  const DoubleLoops loops = HWY_DYNAMIC_DISPATCH(LoopsOfDoubles)(what);
  const auto* const x = static_cast<const double*>(self.const_data_ptr());
  const double divisor = what == DoubleReduction::kMean ? static_cast<double>(shape.length) : 1.0;
  if (shape.inner == 1) {
    threads::parallel_for(context.pool(), shape.outer, threads::grain_for(shape.length), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        y[r] = loops.row(x + r * shape.length, shape.length) / divisor;
      }
    });
    return Error::Ok;
  }
  const size_t pieces = (shape.inner + kPieceColumns - 1) / kPieceColumns;
  const size_t width = std::min(shape.inner, kPieceColumns);
  threads::parallel_for(
      context.pool(), shape.outer * pieces, threads::grain_for(shape.length * width), [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
          const size_t at = i % pieces * kPieceColumns;
          const size_t columns = std::min(shape.inner - at, kPieceColumns);
          double* const to = y + i / pieces * shape.inner + at;
          loops.columns(x + i / pieces * shape.length * shape.inner + at, to, shape.length, columns, shape.inner);
          for (size_t c = 0; divisor != 1.0 && c < columns; ++c) {
            to[c] /= divisor;
          }
        }
      });
  return Error::Ok;
}

Error amax_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return reduce(context, "aten::amax", self, dim, keepdim, out, DoubleReduction::kMax);
}

Error amin_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return reduce(context, "aten::amin", self, dim, keepdim, out, DoubleReduction::kMin);
}

Error max_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return reduce(context, "aten::max", self, {}, false, out, DoubleReduction::kMax);
}

Error mean_dtype_out(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::mean", self, {}, false, out, DoubleReduction::kMean);
}

Error mean_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim, bool keepdim,
               std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::mean", self, dims_of(dim), keepdim, out, DoubleReduction::kMean);
}

Error min_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return reduce(context, "aten::min", self, {}, false, out, DoubleReduction::kMin);
}

Error prod_int_out(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType>,
                   Tensor& out) {
  return reduce(context, "aten::prod", self, {dim}, keepdim, out, DoubleReduction::kProd);
}

Error prod_out(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::prod", self, {}, false, out, DoubleReduction::kProd);
}

Error sum_intlist_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim, bool keepdim,
                      std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::sum", self, dims_of(dim), keepdim, out, DoubleReduction::kSum);
}

Error sum_out(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::sum", self, {}, false, out, DoubleReduction::kSum);
}

bool fits(const EValue& self, IntArrayRef dims, bool keepdim, const EValue& out) {
  return self.to_tensor().scalar_type() == ScalarType::Double && out.to_tensor().scalar_type() == ScalarType::Double &&
         fits_reduction_layout(self, dims, keepdim, out);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&amax_out, &fits_dims<fits>>("aten::amax.out"),
    make_fitting_kernel<&amin_out, &fits_dims<fits>>("aten::amin.out"),
    make_fitting_kernel<&max_unary_out, &fits_all<fits>>("aten::max.unary_out"),
    make_fitting_kernel<&mean_dtype_out, &fits_all<fits>>("aten::mean.dtype_out"),
    make_fitting_kernel<&mean_out, &fits_dims<fits>>("aten::mean.out"),
    make_fitting_kernel<&min_unary_out, &fits_all<fits>>("aten::min.unary_out"),
    make_fitting_kernel<&prod_int_out, &fits_one_dim<fits>>("aten::prod.int_out"),
    make_fitting_kernel<&prod_out, &fits_all<fits>>("aten::prod.out"),
    make_fitting_kernel<&sum_intlist_out, &fits_dims<fits>>("aten::sum.IntList_out"),
    make_fitting_kernel<&sum_out, &fits_all<fits>>("aten::sum.out"),
};
constexpr auto kTable = at_priority(kPriorityDoubles, kKernels);

}  // namespace

ET_KERNEL_TABLE(reduce_doubles, {kTable.data(), kTable.size()})

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
