// any and all of numbers and bools over neighbouring dimensions; and the extremes of bools, which are the same.
//
// The tensor is seen as [outer, length, inner] as in reduce.cpp.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "kernels/optimized/reduce/reduction_shape.h"
#include "kernels/optimized/vec/element_bits.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_TRUTH_ONCE
#define ET_KERNELS_OPTIMIZED_TRUTH_ONCE
namespace et::kernels::optimized::reduce {
/// The loops for elements of one width.
struct TruthLoops {
  /// True when one of n elements is true or, with `find_false`, false.
  bool (*row)(const void* x, size_t n, bool is_float, bool find_false) = nullptr;
  /// y[c] = the same of `rows` elements that are `stride` apart, for up to kPieceColumns columns.
  void (*columns)(const void* x, uint8_t* y, size_t rows, size_t columns, size_t stride, bool is_float,
                  bool find_false) = nullptr;
};
}  // namespace et::kernels::optimized::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::reduce::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <typename T>
bool FindInRow(const void* data, size_t n, bool is_float, bool find_false) {
  const auto* x = static_cast<const T*>(data);
  const T mask = bits_of_truth<T>(is_float);
  constexpr size_t kPiece = 512;  // looked at as a whole: vectors are faster than leaving early
  while (n > 0) {
    const size_t piece = std::min(n, kPiece);
    T found = 0;
    if (find_false) {
      for (size_t i = 0; i < piece; ++i) {
        found = static_cast<T>(found | static_cast<T>((x[i] & mask) == 0));
      }
    } else {
      for (size_t i = 0; i < piece; ++i) {
        found = static_cast<T>(found | (x[i] & mask));
      }
    }
    if (found != 0) {
      return true;
    }
    x += piece;
    n -= piece;
  }
  return false;
}

template <typename T>
void FindInColumns(const void* data, uint8_t* HWY_RESTRICT y, size_t rows, size_t columns, size_t stride, bool is_float,
                   bool find_false) {
  const auto* HWY_RESTRICT x = static_cast<const T*>(data);
  const T mask = bits_of_truth<T>(is_float);
  T found[kPieceColumns] = {};  // as wide as elements, so that nothing is narrowed in the loop
  for (size_t r = 0; r < rows; ++r, x += stride) {
    if (find_false) {
      for (size_t c = 0; c < columns; ++c) {
        found[c] = static_cast<T>(found[c] | static_cast<T>((x[c] & mask) == 0));
      }
    } else {
      for (size_t c = 0; c < columns; ++c) {
        found[c] = static_cast<T>(found[c] | (x[c] & mask));
      }
    }
  }
  for (size_t c = 0; c < columns; ++c) {
    y[c] = found[c] != 0 ? 1 : 0;
  }
}

TruthLoops LoopsOfTruth(size_t width) {
  return with_bits_type(width, [](auto bits) {
    using T = decltype(bits);
    return TruthLoops{&FindInRow<T>, &FindInColumns<T>};
  });
}

}  // namespace et::kernels::optimized::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::reduce {

HWY_EXPORT(LoopsOfTruth);

namespace {

enum class Truth { kAny, kAll };

/// `needs_elements`: an extreme of nothing is an error.
Error truth(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
            const Tensor& out, Truth what, bool needs_elements = false) {
  ReductionShape shape;
  ET_RETURN_IF_ERROR(shape_reduction(context, op, self, dims, keepdim, out, &shape));
  ET_CHECK_OR_RETURN(shape.length > 0 || out.numel() == 0 || !needs_elements, InvalidArgument,
                     "%s: the dimension to reduce has no elements", op);
  auto* const y = static_cast<uint8_t*>(out.mutable_data_ptr());
  const bool all = what == Truth::kAll;
  if (shape.length == 0 || out.numel() == 0) {
    std::fill_n(y, out.numel(), static_cast<uint8_t>(all));
    return Error::Ok;
  }
  const bool is_float = is_floating(self.scalar_type());
  const TruthLoops loops = HWY_DYNAMIC_DISPATCH(LoopsOfTruth)(self.element_size());
  const auto* const x = static_cast<const char*>(self.const_data_ptr());
  const size_t size = self.element_size();
  if (shape.inner == 1) {
    threads::parallel_for(context.pool(), shape.outer, threads::grain_for(shape.length), [&](size_t begin, size_t end) {
      for (size_t r = begin; r < end; ++r) {
        y[r] = loops.row(x + r * shape.length * size, shape.length, is_float, all) != all ? 1 : 0;
      }
    });
    return Error::Ok;
  }
  const size_t pieces = (shape.inner + kPieceColumns - 1) / kPieceColumns;
  const size_t width = std::min(shape.inner, kPieceColumns);
  threads::parallel_for(context.pool(), shape.outer * pieces, threads::grain_for(shape.length * width),
                        [&](size_t begin, size_t end) {
                          uint8_t found[kPieceColumns];
                          for (size_t i = begin; i < end; ++i) {
                            const size_t at = i % pieces * kPieceColumns;
                            const size_t columns = std::min(shape.inner - at, kPieceColumns);
                            loops.columns(x + (i / pieces * shape.length * shape.inner + at) * size, found,
                                          shape.length, columns, shape.inner, is_float, all);
                            for (size_t c = 0; c < columns; ++c) {
                              y[i / pieces * shape.inner + at + c] = (found[c] != 0) != all ? 1 : 0;
                            }
                          }
                        });
  return Error::Ok;
}

Error all_all_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return truth(context, "aten::all", self, {}, false, out, Truth::kAll);
}
Error all_out(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  return truth(context, "aten::all", self, {dim}, keepdim, out, Truth::kAll);
}
Error any_all_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return truth(context, "aten::any", self, {}, false, out, Truth::kAny);
}
Error any_out(KernelContext& context, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  return truth(context, "aten::any", self, {dim}, keepdim, out, Truth::kAny);
}
Error amax_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return truth(context, "aten::amax", self, dim, keepdim, out, Truth::kAny, true);
}
Error amin_out(KernelContext& context, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  return truth(context, "aten::amin", self, dim, keepdim, out, Truth::kAll, true);
}
Error max_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return truth(context, "aten::max", self, {}, false, out, Truth::kAny, true);
}
Error min_unary_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return truth(context, "aten::min", self, {}, false, out, Truth::kAll, true);
}

/// A result of bools, and numbers or bools to look at; `only_bools`: bools. Of bytes ATen makes bytes.
template <bool only_bools>
bool fits(const EValue& self, IntArrayRef dims, bool keepdim, const EValue& out) {
  const ScalarType dtype = self.to_tensor().scalar_type();
  const bool is_bool = dtype == ScalarType::Bool;
  const ScalarType result = out.to_tensor().scalar_type();
  const bool gives_truth = result == ScalarType::Bool || (!only_bools && dtype == ScalarType::Byte && result == dtype);
  return (is_bool || (!only_bools && is_number(dtype))) && gives_truth &&
         fits_reduction_layout(self, dims, keepdim, out);
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&all_all_out, &fits_all<fits<false>>>("aten::all.all_out"),
    make_fitting_kernel<&all_out, &fits_one_dim<fits<false>>>("aten::all.out"),
    make_fitting_kernel<&amax_out, &fits_dims<fits<true>>>("aten::amax.out"),
    make_fitting_kernel<&amin_out, &fits_dims<fits<true>>>("aten::amin.out"),
    make_fitting_kernel<&any_all_out, &fits_all<fits<false>>>("aten::any.all_out"),
    make_fitting_kernel<&any_out, &fits_one_dim<fits<false>>>("aten::any.out"),
    make_fitting_kernel<&max_unary_out, &fits_all<fits<true>>>("aten::max.unary_out"),
    make_fitting_kernel<&min_unary_out, &fits_all<fits<true>>>("aten::min.unary_out"),
};
constexpr auto kTable = at_priority(kPriorityBools, kKernels);

}  // namespace

ET_KERNEL_TABLE(truth, {kTable.data(), kTable.size()})

}  // namespace et::kernels::optimized::reduce
#endif  // HWY_ONCE
