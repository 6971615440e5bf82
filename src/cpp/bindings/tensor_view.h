/// A tensor as an address and strides: what lies where, what overlaps, and how to copy between layouts.
///
/// For: reading and writing tensors of Python callers. Needs neither Python nor the GIL.
/// Not for: owning memory (tensor_conversion.h), or kernels, whose tensors are dense.
///
///     if (!view.is_dense(dim_order)) copy_strided(view, dense);
///
/// Place: Python objects → BorrowedTensor → **here** → TensorImpl → Method.
#pragma once

#include "base/dtype.h"
#include "base/span.h"
#include "runtime/tensor.h"

namespace et::bindings {

/// Memory of a tensor with any strides, those in bytes.
struct TensorView {
  void* data = nullptr;
  ScalarType dtype = ScalarType::Byte;
  size_t rank = 0;
  int64_t sizes[runtime::kMaxRank] = {};         // [rank]
  int64_t byte_strides[runtime::kMaxRank] = {};  // [rank]
  bool read_only = false;

  int64_t numel() const;
  size_t nbytes() const { return static_cast<size_t>(numel()) * element_size(dtype); }
  /// True when the elements lie without gaps in `dim_order`, at an address that their type allows. A dimension of
  /// size 1 may have any stride.
  bool is_dense(Span<const uint8_t> dim_order) const;
  /// True when the bytes of both overlap, their whole extents taken.
  bool overlaps(const TensorView& other) const;
  /// True when an element of one may lie on an element of the other. Two parts of one tensor (columns, every second
  /// row) do not share elements, although their extents overlap; what cannot be told apart that way counts as shared.
  bool shares_elements(const TensorView& other) const;
  /// True when two indices may be one place in memory: an expanded tensor, or windows that slide over each other.
  bool elements_share_memory() const;
};

/// Copies every element of `from` to the same index of `to`. Same dtype and sizes; must not overlap.
void copy_strided(const TensorView& from, const TensorView& to);

}  // namespace et::bindings
