/// Copies between tensors with strides, with or without conversion of the element type.
///
/// For: operators that move elements: views that are copied (permute, slice, expand …), cat, pad, flip, casts.
/// A source is described as a window on a tensor: a pointer to its first element and its strides, which may be 0
/// (expand) or negative (flip).
///
///     Window window = window_of(self);
///     std::swap(window.sizes[0], window.sizes[1]); std::swap(window.strides[0], window.strides[1]);
///     ET_RETURN_IF_ERROR(resize_tensor(context, out, window.sizes));
///     copy_window(window, window_of(out));
#pragma once

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

/// A view of elements: of a whole tensor, or of a part of one.
struct Window {
  char* data;
  Sizes sizes;
  Sizes strides;  // elements
  ScalarType dtype;

  size_t element_size() const { return kernels::element_size(dtype); }
  /// Moves the first element `count` steps along `dim`.
  void advance(int64_t dim, int64_t count) { data += count * strides[dim] * static_cast<int64_t>(element_size()); }
};

/// The whole tensor.
Window window_of(const Tensor& tensor);
/// `length` indices along `dim` from `start`, `step` apart.
Window slice_of(const Tensor& tensor, int64_t dim, int64_t start, int64_t length, int64_t step = 1);
/// Index `index` along `dim`, which disappears.
Window select_of(const Tensor& tensor, int64_t dim, int64_t index);

/// The diagonal between `dim1` and `dim2`, as last dimension. Errors: InvalidArgument for equal dims or one out of
/// range.
Error diagonal_of(const char* op, const Tensor& tensor, int64_t offset, int64_t dim1, int64_t dim2, Window* out);
/// Turned k times by a quarter, from the first of two dimensions towards the second. Errors: InvalidArgument for other
/// numbers of dimensions than two, equal ones or one out of range.
Error rotated(const Tensor& tensor, int64_t k, IntArrayRef dims, Window* out);
/// [batch, groups, channels of a group, …] as [batch, channels of a group, groups, …]; as it is where it has no
/// elements. Errors: InvalidArgument for fewer than three dimensions, too many, or groups that do not divide the
/// channels.
Error channels_shuffled(const Tensor& tensor, int64_t groups, Window* out);
/// Splits dimension `dim` into (size / inner, inner); `inner` divides the size.
void split_dim(Window& window, int64_t dim, int64_t inner);
/// Takes dimension `from` out and puts it in at `to`.
void move_dim(Window& window, int64_t from, int64_t to);
/// Python's slice rules: the first index, and how many there are. `*dim` is normalised.
/// Errors: InvalidArgument for a dim out of range or a step below 1.
Error normalize_slice(const char* op, const Tensor& tensor, int64_t* dim, std::optional<int64_t> start,
                      std::optional<int64_t> end, int64_t step, int64_t* first, int64_t* length);
/// Brings `index` from [-size, size) of dimension `dim` to [0, size). Errors: InvalidArgument naming index and size.
Error normalize_index(const char* op, int64_t index, const Tensor& tensor, int64_t dim, int64_t* out);

/// Copies `from` to `to` element by element. Sizes are equal (or `from` broadcasts to them); element types may differ
/// and are converted. The windows may be the same memory, in which case nothing happens, but must not overlap
/// otherwise. Errors: InvalidType for a conversion from complex to real numbers.
Error copy_window(const Window& from, const Window& to);
/// Resizes `out` to `from` and copies it, element type and dim order being those of `out`. Errors: those of both.
Error copy_tensor(KernelContext& context, const Tensor& from, const Tensor& out);
/// The same for tensors of one element type: how operators begin that change some of `from`'s elements. Errors:
/// InvalidType for different types, naming `op`; those of copy_tensor.
Error copy_same_dtype(KernelContext& context, const char* op, const Tensor& from, const Tensor& out);

/// Copies elements in logical (row-major index) order between tensors of the same number of elements and dtype,
/// whatever their shapes and dim orders: what view and reshape do.
void copy_reshaped(const Tensor& from, const Tensor& to);

/// Writes `value`, of `element_size` bytes, n times from `to` on.
void fill_run(char* to, const void* value, size_t element_size, int64_t n);

/// Writes `value` (one element of the window's dtype) to each element.
void fill_window(const Window& to, const void* value);

}  // namespace et::kernels::portable
