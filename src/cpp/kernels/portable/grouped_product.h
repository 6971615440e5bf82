/// The matrix products that one grouped product stands for (a mixture of experts multiplies each expert's rows by its
/// weights).
///
/// For: the kernels of aten::_grouped_mm and transformers::grouped_mm_fallback, portable and fast. They differ in how
///      they multiply one pair of matrices only.
///
///     ET_TRY(const GroupedProduct grouped, GroupedProduct::of(context, op, self, mat2, offs, out));
///     for (int64_t g = 0; g < grouped.count(); ++g) { const MatrixPair pair = grouped[g]; … }
///
/// The groups are parts of a dimension that only one operand has, or that both sum over. `offs` [groups] holds where
/// each part ends, never falling:
///
///     self [rows, depth]          mat2 [groups, depth, columns]  -> [rows, columns]           offs cut the rows
///     self [groups, rows, depth]  mat2 [depth, columns]          -> [rows, columns]           offs cut the columns
///     self [rows, depth]          mat2 [depth, columns]          -> [groups, rows, columns]   offs cut the depth
///     self [groups, rows, depth]  mat2 [groups, depth, columns]  -> [groups, rows, columns]   no offs
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::portable {

/// A matrix in memory: element (i, j) is number i * row + j * column behind `data`.
struct MatrixView {
  char* data;
  int64_t rows, columns;
  int64_t row, column;  // elements
};

/// out = left · right
struct MatrixPair {
  MatrixView left, right, out;
};

class GroupedProduct {
 public:
  /// Checks the arguments, gives `out` its sizes and fills it with zeros where the groups do not reach.
  /// Errors: InvalidArgument for shapes that do not multiply, offsets that fall or lie outside; InvalidType for offsets
  ///         that are not i32 or for operands of several dtypes.
  static Result<GroupedProduct> of(KernelContext& context, const char* op, const Tensor& self, const Tensor& mat2,
                                   const OptionalTensor& offs, Tensor& out);

  int64_t count() const { return count_; }
  /// The product of group `g`; without rows, columns or depth where the group is empty.
  MatrixPair operator[](int64_t g) const;

 private:
  enum Cut : uint8_t { kNothing, kRows, kColumns, kDepth };

  MatrixView left_, right_, out_;                          // of the first group, or whole where offsets cut
  int64_t left_step_ = 0, right_step_ = 0, out_step_ = 0;  // bytes from group to group
  const int32_t* ends_ = nullptr;
  int64_t count_ = 0;
  int64_t element_ = 0;  // bytes
  Cut cut_ = kNothing;
};

}  // namespace et::kernels::portable
