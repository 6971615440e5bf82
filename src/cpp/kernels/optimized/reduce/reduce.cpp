// Reductions over dimensions that lie side by side in memory: sum, mean, prod, amax, amin, max, min, var, std, any,
// all, vector norms of order 2; global average pooling.
//
// The tensor is seen as [outer, length, inner] with the reduced dimensions in the middle. inner == 1: rows are reduced
// to numbers. Otherwise rows of `inner` are combined, which is how channels-last images are averaged.

#include <algorithm>
#include <cmath>

#include "base/rounding.h"
#include "kernels/optimized/reduce/reduction.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/convert.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::reduce {
namespace {

/// In the order of Reduction.
constexpr const char* kNames[] = {"aten::sum",  "aten::mean", "aten::prod", "aten::amax",
                                  "aten::amin", "aten::var",  "aten::std",  "aten::linalg_vector_norm",
                                  "aten::any",  "aten::all"};

ReductionLoops loops_of(Reduction what, ScalarType from, ScalarType to) {
  for (const LoopsOf of_kind : {&loops_of_floats, &loops_of_integers, &loops_of_truth, &loops_of_norms}) {
    const ReductionLoops loops = of_kind(what, from, to);
    if (loops.rows != nullptr) {
      return loops;
    }
  }
  return {};
}

/// Fills `out` with the reduction of no elements.
Error reduce_nothing(Reduction what, const Tensor& out) {
  ET_CHECK_OR_RETURN(what != Reduction::kMax && what != Reduction::kMin, InvalidArgument,
                     "%s: the dimension to reduce has no elements", kNames[static_cast<int>(what)]);
  const bool is_one = what == Reduction::kProd || what == Reduction::kAll;
  const bool is_number = is_one || what == Reduction::kSum || what == Reduction::kAny || what == Reduction::kNorm;
  const Scalar value = is_number ? Scalar(static_cast<int64_t>(is_one)) : Scalar(static_cast<double>(NAN));
  for (int64_t i = 0; i < out.numel(); ++i) {
    portable::store_scalar(out.scalar_type(), value,
                           static_cast<char*>(out.mutable_data_ptr()) + static_cast<size_t>(i) * out.element_size());
  }
  return Error::Ok;
}

Error reduce(KernelContext& context, Reduction what, const Tensor& self, IntArrayRef dims, bool keepdim,
             const Tensor& out, double correction = 0) {
  ReductionShape shape;
  ET_RETURN_IF_ERROR(shape_reduction(context, kNames[static_cast<int>(what)], self, dims, keepdim, out, &shape));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  if (shape.length == 0) {
    return reduce_nothing(what, out);
  }
  const ReductionLoops loops = loops_of(what, self.scalar_type(), out.scalar_type());
  const ReductionJob job{what, self, out, shape, std::max(static_cast<double>(shape.length) - correction, 0.0)};
  if (shape.inner == 1) {
    threads::parallel_for(context, shape.outer, threads::grain_for(shape.length),
                          [&](size_t begin, size_t end) { loops.rows(job, begin, end); });
    return Error::Ok;
  }
  const size_t pieces = divide_up(shape.inner, kPieceColumns);
  const size_t work = shape.length * std::min(shape.inner, kPieceColumns);
  threads::parallel_for(context, shape.outer * pieces, threads::grain_for(work), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t at = i % pieces * kPieceColumns, outer = i / pieces;
      loops.columns(job, outer * shape.length * shape.inner + at, outer * shape.inner + at,
                    std::min(shape.inner - at, kPieceColumns));
    }
  });
  return Error::Ok;
}

template <Reduction what>
bool fits(const EValue& self, IntArrayRef dims, bool keepdim, const EValue& out) {
  return loops_of(what, self.to_tensor().scalar_type(), out.to_tensor().scalar_type()).rows != nullptr &&
         (!is_variance(what) || reduces_rows(self.to_tensor(), dims)) &&
         fits_reduction_layout(self, dims, keepdim, out);
}

// The forms in which ATen's reductions have their arguments.

template <Reduction what>
Error over_all(KernelContext& context, const Tensor& self, Tensor& out) {
  return reduce(context, what, self, {}, false, out);
}
template <Reduction what>
Error over_all_as(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, what, self, {}, false, out);
}
template <Reduction what>
Error over_dim(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  return reduce(context, what, self, {dim}, keepdim, out);
}
template <Reduction what>
Error over_dim_as(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType>,
                  Tensor& out) {
  return reduce(context, what, self, {dim}, keepdim, out);
}
template <Reduction what>
Error over_dims(KernelContext& context, const Tensor& self, IntArrayRef dims, bool keepdim, Tensor& out) {
  return reduce(context, what, self, dims, keepdim, out);
}
template <Reduction what>
Error over_dims_as(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dims, bool keepdim,
                   std::optional<ScalarType>, Tensor& out) {
  return reduce(context, what, self, dims_of(dims), keepdim, out);
}
template <Reduction what>
Error corrected(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dims,
                std::optional<Scalar> correction, bool keepdim, Tensor& out) {
  return reduce(context, what, self, dims_of(dims), keepdim, out, correction ? correction->to<double>() : 1.0);
}

Error norm(KernelContext& context, const Tensor& self, const Scalar&, std::optional<IntArrayRef> dims, bool keepdim,
           std::optional<ScalarType>, Tensor& out) {
  return reduce(context, Reduction::kNorm, self, dims_of(dims), keepdim, out);
}

Error global_pool(KernelContext& context, const Tensor& self, IntArrayRef, Tensor& out) {
  return reduce(context, Reduction::kMean, self, {-2, -1}, true, out);
}

/// var and std(self, dim, correction, keepdim, out)
template <Reduction what>
bool fits_corrected(Arguments args) {
  return fits<what>(*args[0], dims_of(*args[1]), args[3]->number_as_bool(), *args[4]);
}
/// linalg_vector_norm(self, ord, dim, keepdim, dtype, out)
bool fits_norm(Arguments args) {
  return args[1]->number_as_double() == 2.0 &&
         fits<Reduction::kNorm>(*args[0], dims_of(*args[2]), args[3]->number_as_bool(), *args[5]);
}
/// One average for each image and channel: _adaptive_avg_pool2d(self, output_size, out)
bool fits_global_pool(Arguments args) {
  const IntArrayRef size = args[1]->to_int_list();
  const bool one = !size.empty() && size.front() == 1 && size.back() == 1;
  return one && args[0]->is_tensor() && args[0]->to_tensor().dim() >= 3 &&
         fits<Reduction::kMean>(*args[0], {-2, -1}, true, *args[2]);
}

template <auto Function, Reduction what>
constexpr Kernel of_all(const char* name) {
  return make_fitting_kernel<Function, &fits_all<fits<what>>>(name);
}
template <auto Function, Reduction what>
constexpr Kernel of_dim(const char* name) {
  return make_fitting_kernel<Function, &fits_one_dim<fits<what>>>(name);
}
template <auto Function, Reduction what>
constexpr Kernel of_dims(const char* name) {
  return make_fitting_kernel<Function, &fits_dims<fits<what>>>(name);
}

using R = Reduction;
constexpr Kernel kKernels[] = {
    at_priority(kPriorityWholeImages,
                make_fitting_kernel<&global_pool, &fits_global_pool>("aten::_adaptive_avg_pool2d.out")),
    of_all<&over_all<R::kAll>, R::kAll>("aten::all.all_out"),
    of_dim<&over_dim<R::kAll>, R::kAll>("aten::all.out"),
    of_dims<&over_dims<R::kMax>, R::kMax>("aten::amax.out"),
    of_dims<&over_dims<R::kMin>, R::kMin>("aten::amin.out"),
    of_all<&over_all<R::kAny>, R::kAny>("aten::any.all_out"),
    of_dim<&over_dim<R::kAny>, R::kAny>("aten::any.out"),
    make_fitting_kernel<&norm, &fits_norm>("aten::linalg_vector_norm.out"),
    of_all<&over_all<R::kMax>, R::kMax>("aten::max.unary_out"),
    of_all<&over_all_as<R::kMean>, R::kMean>("aten::mean.dtype_out"),
    of_dims<&over_dims_as<R::kMean>, R::kMean>("aten::mean.out"),
    of_all<&over_all<R::kMin>, R::kMin>("aten::min.unary_out"),
    of_dim<&over_dim_as<R::kProd>, R::kProd>("aten::prod.int_out"),
    of_all<&over_all_as<R::kProd>, R::kProd>("aten::prod.out"),
    make_fitting_kernel<&corrected<R::kDeviation>, &fits_corrected<R::kDeviation>>("aten::std.correction_out"),
    of_dims<&over_dims_as<R::kSum>, R::kSum>("aten::sum.IntList_out"),
    of_all<&over_all_as<R::kSum>, R::kSum>("aten::sum.out"),
    make_fitting_kernel<&corrected<R::kVariance>, &fits_corrected<R::kVariance>>("aten::var.correction_out"),
};

}  // namespace

ET_KERNEL_TABLE(reduce, kKernels)

}  // namespace et::kernels::optimized::reduce
