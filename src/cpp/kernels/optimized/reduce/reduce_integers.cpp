// Reductions of integers over dimensions that lie side by side in memory: sum and prod into int64, amax, amin, max,
// min.
//
// The tensor is seen as [outer, length, inner] as in reduce.cpp. Loops are plain: integers may be combined in any
// order, so the compiler makes vectors of them for each instruction set.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/optimized/reduce/reduction_shape.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_REDUCE_INTEGERS_ONCE
#define ET_KERNELS_OPTIMIZED_REDUCE_INTEGERS_ONCE
namespace et::kernels::optimized::reduce {
enum class IntegerReduction { kSum, kProd, kMax, kMin };

/// The loops of one reduction of one element type.
struct IntegerLoops {
  /// *y = the reduction of n elements.
  void (*row)(const void* x, void* y, size_t n) = nullptr;
  /// y[c] = the reduction of `rows` elements that are `stride` apart, for `columns` columns.
  void (*columns)(const void* x, void* y, size_t rows, size_t columns, size_t stride) = nullptr;
};
}  // namespace et::kernels::optimized::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// Sums and products are taken unsigned, so that they wrap.
struct Sum {
  template <typename T>
  using Total = uint64_t;
  template <typename T>
  static constexpr uint64_t first() {
    return 0;
  }
  static uint64_t combine(uint64_t a, uint64_t b) { return a + b; }
};
struct Prod {
  template <typename T>
  using Total = uint64_t;
  template <typename T>
  static constexpr uint64_t first() {
    return 1;
  }
  static uint64_t combine(uint64_t a, uint64_t b) { return a * b; }
};
struct Max {
  template <typename T>
  using Total = T;
  template <typename T>
  static constexpr T first() {
    return std::numeric_limits<T>::lowest();
  }
  template <typename T>
  static T combine(T a, T b) {
    return a > b ? a : b;
  }
};
struct Min {
  template <typename T>
  using Total = T;
  template <typename T>
  static constexpr T first() {
    return std::numeric_limits<T>::max();
  }
  template <typename T>
  static T combine(T a, T b) {
    return a < b ? a : b;
  }
};

template <class Op, typename T>
void FoldRow(const void* from, void* to, size_t n) {
  using Total = typename Op::template Total<T>;
  const auto* const x = static_cast<const T*>(from);
  Total total = Op::template first<T>();
  for (size_t i = 0; i < n; ++i) {
    total = Op::combine(total, static_cast<Total>(x[i]));
  }
  *static_cast<Total*>(to) = total;
}

template <class Op, typename T>
void FoldColumns(const void* from, void* to, size_t rows, size_t columns, size_t stride) {
  using Total = typename Op::template Total<T>;
  const auto* HWY_RESTRICT x = static_cast<const T*>(from);
  auto* const HWY_RESTRICT y = static_cast<Total*>(to);
  std::fill(y, y + columns, Op::template first<T>());
  for (size_t r = 0; r < rows; ++r, x += stride) {
    for (size_t c = 0; c < columns; ++c) {
      y[c] = Op::combine(y[c], static_cast<Total>(x[c]));
    }
  }
}

template <class Op>
IntegerLoops loops_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
    case ScalarType::Byte: return {&FoldRow<Op, uint8_t>, &FoldColumns<Op, uint8_t>};
    case ScalarType::Char: return {&FoldRow<Op, int8_t>, &FoldColumns<Op, int8_t>};
    case ScalarType::Short: return {&FoldRow<Op, int16_t>, &FoldColumns<Op, int16_t>};
    case ScalarType::Int: return {&FoldRow<Op, int32_t>, &FoldColumns<Op, int32_t>};
    case ScalarType::Long: return {&FoldRow<Op, int64_t>, &FoldColumns<Op, int64_t>};
    default: return {};
  }
}

IntegerLoops Loops(ScalarType dtype, IntegerReduction what) {
  switch (what) {
    case IntegerReduction::kSum: return loops_of<Sum>(dtype);
    case IntegerReduction::kProd: return loops_of<Prod>(dtype);
    case IntegerReduction::kMax: return loops_of<Max>(dtype);
    default: return loops_of<Min>(dtype);
  }
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(Loops);

namespace {

Error reduce(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
             const Tensor& out, IntegerReduction what) {
  ReductionShape shape;
  ET_RETURN_IF_ERROR(shape_reduction(context, op, self, dims, keepdim, out, &shape));
  const bool is_extreme = what == IntegerReduction::kMax || what == IntegerReduction::kMin;
  ET_CHECK_OR_RETURN(shape.length > 0 || out.numel() == 0 || !is_extreme, InvalidArgument,
                     "%s: the dimension to reduce has no elements", op);
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const IntegerLoops loops = HWY_DYNAMIC_DISPATCH(Loops)(self.scalar_type(), what);
  const auto* const x = static_cast<const char*>(self.const_data_ptr());
  auto* const y = static_cast<char*>(out.mutable_data_ptr());
  const size_t from_size = self.element_size(), to_size = out.element_size();
  if (shape.inner == 1) {
    threads::parallel_for(context.pool(), shape.outer, threads::grain_for(shape.length), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        loops.row(x + r * shape.length * from_size, y + r * to_size, shape.length);
      }
    });
    return Error::Ok;
  }
  const size_t pieces = (shape.inner + kPieceColumns - 1) / kPieceColumns;
  const size_t width = std::min(shape.inner, kPieceColumns);
  threads::parallel_for(context.pool(), shape.outer * pieces, threads::grain_for(shape.length * width),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end; ++i) {
                            const size_t at = i % pieces * kPieceColumns;
                            const size_t outer = i / pieces;
                            loops.columns(x + (outer * shape.length * shape.inner + at) * from_size,
                                          y + (outer * shape.inner + at) * to_size, shape.length,
                                          std::min(shape.inner - at, kPieceColumns), shape.inner);
                          }
                        });
  return Error::Ok;
}

Error sum_intlist_out(KernelContext& context, const Tensor& self, std::optional<IntArrayRef> dim, bool keepdim,
                      std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::sum", self, dims_of(dim), keepdim, out, IntegerReduction::kSum);
}

Error sum_out(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::sum", self, {}, false, out, IntegerReduction::kSum);
}

Error prod_out(KernelContext& context, const Tensor& self, std::optional<ScalarType>, Tensor& out) {
  return reduce(context, "aten::prod", self, {}, false, out, IntegerReduction::kProd);
}

Error prod_int_out(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType>,
                   Tensor& out) {
  return reduce(context, "aten::prod", self, {dim}, keepdim, out, IntegerReduction::kProd);
}

Error amax_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return reduce(context, "aten::amax", self, dim, keepdim, out, IntegerReduction::kMax);
}

Error amin_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return reduce(context, "aten::amin", self, dim, keepdim, out, IntegerReduction::kMin);
}

Error max_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return reduce(context, "aten::max", self, {}, false, out, IntegerReduction::kMax);
}

Error min_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return reduce(context, "aten::min", self, {}, false, out, IntegerReduction::kMin);
}

/// Totals are int64, extremes of the element's own type.
template <bool totals>
bool fits(const EValue& self, IntArrayRef dims, bool keepdim, const EValue& out) {
  const ScalarType from = self.to_tensor().scalar_type();
  const ScalarType to = out.to_tensor().scalar_type();
  const bool takes = totals ? to == ScalarType::Long : to == from && from != ScalarType::Bool;
  return takes && HWY_DYNAMIC_DISPATCH(Loops)(from, IntegerReduction::kSum).row != nullptr &&
         fits_reduction_layout(self, dims, keepdim, out);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&amax_out, &fits_dims<fits<false>>>("aten::amax.out"),
    make_fitting_kernel<&amin_out, &fits_dims<fits<false>>>("aten::amin.out"),
    make_fitting_kernel<&max_unary_out, &fits_all<fits<false>>>("aten::max.unary_out"),
    make_fitting_kernel<&min_unary_out, &fits_all<fits<false>>>("aten::min.unary_out"),
    make_fitting_kernel<&prod_int_out, &fits_one_dim<fits<true>>>("aten::prod.int_out"),
    make_fitting_kernel<&prod_out, &fits_all<fits<true>>>("aten::prod.out"),
    make_fitting_kernel<&sum_intlist_out, &fits_dims<fits<true>>>("aten::sum.IntList_out"),
    make_fitting_kernel<&sum_out, &fits_all<fits<true>>>("aten::sum.out"),
};
constexpr auto kTable = at_priority(kPriorityIntegers, kKernels);

}  // namespace

ET_KERNEL_TABLE(reduce_integers, {kTable.data(), kTable.size()})

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
