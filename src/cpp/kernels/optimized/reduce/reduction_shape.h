/// Reductions over dimensions that lie side by side in memory, seen as [outer, length, inner], and their walk in
/// floats or doubles.
///
/// For: reduction.h. inner == 1: rows are reduced to numbers; otherwise columns side by side are. 16-bit floats are
/// converted a piece at a time, so the vector code is written for floats and doubles only. Not for: dimensions that are
/// apart in memory; the portable kernels take those.
///
///     ReductionShape shape;
///     ET_RETURN_IF_ERROR(shape_reduction(context, "aten::amax", self, dims, keepdim, out, &shape));   // resizes out
///     for_each_piece<float>(self, r * shape.length, shape.length, [&](const float* x, size_t n) { … });      // row r
#pragma once

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/float_runs.h"

namespace et::kernels::optimized::reduce {

struct ReductionShape {
  size_t outer = 1, length = 1, inner = 1;
};

/// True when the reduced dimensions are neighbours in memory and the others lie in the same order in `out`. `dims`
/// empty means all.
bool fits_reduction_layout(const EValue& self, IntArrayRef dims, bool keepdim, const EValue& out);

/// A reduction's dimensions, none for all of them.
inline IntArrayRef dims_of(const std::optional<IntArrayRef>& dims) { return dims ? *dims : IntArrayRef(); }
inline IntArrayRef dims_of(const EValue& dims) { return dims.is_none() ? IntArrayRef() : dims.to_int_list(); }

/// What a kernel takes, for the predicates below, which know where ATen's reductions have their arguments.
using FitsReduction = bool (*)(const EValue& self, IntArrayRef dims, bool keepdim, const EValue& out);

/// reduce(self, dims or None, keepdim, [dtype,] out)
template <FitsReduction Fits>
bool fits_dims(Arguments args) {
  return Fits(*args[0], dims_of(*args[1]), args[2]->number_as_bool(), *args[args.size() - 1]);
}
/// reduce(self, dim, keepdim, [dtype,] out)
template <FitsReduction Fits>
bool fits_one_dim(Arguments args) {
  return Fits(*args[0], {args[1]->number_as_int()}, args[2]->number_as_bool(), *args[args.size() - 1]);
}
/// reduce(self, [dtype,] out)
template <FitsReduction Fits>
bool fits_all(Arguments args) {
  return Fits(*args[0], {}, false, *args[args.size() - 1]);
}

/// True when the reduced dimensions are the innermost ones, so that rows are reduced.
bool reduces_rows(const Tensor& self, IntArrayRef dims);

/// Resizes `out` and gives the shape. Errors: InvalidArgument for a dim out of range; those of resize_tensor.
Error shape_reduction(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
                      const Tensor& out, ReductionShape* shape);

/// Columns that are treated at a time: a few lines of each row; and rows of them that are converted at a time.
inline constexpr size_t kPieceColumns = 256;
inline constexpr size_t kPieceRows = 16;

/// Calls f(x, n) for elements [first, first + n) of a dense tensor as T (elements_of), in pieces that together are
/// [first, first + count).
template <typename T, typename F>
void for_each_piece(const Tensor& tensor, size_t first, size_t count, F&& f) {
  constexpr size_t kPiece = 1024;
  alignas(64) T line[kPiece];
  const size_t piece = tensor.scalar_type() == dtype_of<T> ? count : kPiece;
  for (size_t start = 0; start < count; start += piece) {
    const size_t n = count - start < piece ? count - start : piece;
    f(elements_of(tensor, first + start, n, line), n);
  }
}

/// Calls f(x, rows, stride) for blocks of rows of `columns` (at most kPieceColumns) columns from element `first` of a
/// dense tensor on. Rows are `inner` elements apart and `length` in number: element (r, c) of a block is x[r * stride +
/// c].
template <typename T, typename F>
void for_each_block(const Tensor& tensor, size_t first, size_t columns, size_t length, size_t inner, F&& f) {
  if (tensor.scalar_type() == dtype_of<T>) {
    f(static_cast<const T*>(tensor.const_data_ptr()) + first, length, inner);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {  // doubles are never converted
    alignas(64) float block[kPieceRows * kPieceColumns];
    for (size_t start = 0; start < length; start += kPieceRows) {
      const size_t rows = length - start < kPieceRows ? length - start : kPieceRows;
      for (size_t r = 0; r < rows; ++r) {
        elements_of(tensor, first + (start + r) * inner, columns, block + r * kPieceColumns);
      }
      f(static_cast<const float*>(block), rows, kPieceColumns);
    }
  }
}

}  // namespace et::kernels::optimized::reduce
