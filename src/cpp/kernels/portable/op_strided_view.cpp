// Views that are a window on the input: other strides, the same elements. Each computes a window and copies it.
#include "kernels/portable/op_strided_view.h"

#include <algorithm>

#include "base/checked_math.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::portable {
namespace {

Error emit(KernelContext& context, const char* op, const Tensor& self, const Window& window, const Tensor& out) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, window.sizes));
  return copy_window(window, window_of(out));
}

template <typename T>
void swap_values(T& a, T& b) {
  const T old = a;
  a = b;
  b = old;
}

Error transpose(KernelContext& context, const Tensor& self, int64_t dim0, int64_t dim1, const Tensor& out) {
  ET_RETURN_IF_ERROR(normalize_dim("aten::transpose", dim0, self.dim(), &dim0));
  ET_RETURN_IF_ERROR(normalize_dim("aten::transpose", dim1, self.dim(), &dim1));
  Window window = window_of(self);
  if (self.dim() > 0) {
    swap_values(window.sizes[dim0], window.sizes[dim1]);
    swap_values(window.strides[dim0], window.strides[dim1]);
  }
  return emit(context, "aten::transpose", self, window, out);
}

// A window at any place and with any strides, in elements of the tensor's memory.
Error strided_window(const Tensor& tensor, IntArrayRef size, IntArrayRef stride, std::optional<int64_t> storage_offset,
                     Window* window) {
  ET_CHECK_OR_RETURN(size.size() == stride.size(), InvalidArgument, "aten::as_strided: %zu sizes, %zu strides",
                     size.size(), stride.size());
  const int64_t offset = storage_offset.value_or(0);
  int64_t last = offset;
  bool empty = false, overflows = false;
  for (size_t i = 0; i < size.size(); ++i) {
    ET_CHECK_OR_RETURN(size[i] >= 0 && stride[i] >= 0, InvalidArgument, "aten::as_strided: negative size or stride");
    int64_t step = 0;
    empty = empty || size[i] == 0;
    overflows = overflows || mul_overflow(std::max<int64_t>(size[i] - 1, 0), stride[i], &step) ||
                add_overflow(last, step, &last);
  }
  ET_CHECK_OR_RETURN(offset >= 0 && (empty || (!overflows && last < tensor.numel())), InvalidArgument,
                     "aten::as_strided: sizes %s with strides %s from %" PRId64 " reach beyond %" PRId64 " elements",
                     ShapeText(size).text, ShapeText(stride).text, offset, tensor.numel());
  const int64_t start = empty ? 0 : offset * static_cast<int64_t>(tensor.element_size());
  *window = {window_of(tensor).data + start, Sizes(size), Sizes(stride), tensor.scalar_type()};
  return Error::Ok;
}

}  // namespace

Error permute_copy_out(KernelContext& context, const Tensor& self, IntArrayRef dims, Tensor& out) {
  ET_CHECK_OR_RETURN(static_cast<int64_t>(dims.size()) == self.dim(), InvalidArgument,
                     "aten::permute: %s does not name each dimension of %s once", ShapeText(dims).text,
                     ShapeText(self.sizes()).text);
  Window window = window_of(self);
  bool seen[kMaxRank] = {};
  for (int64_t i = 0; i < self.dim(); ++i) {
    int64_t dim;
    ET_RETURN_IF_ERROR(normalize_dim("aten::permute", dims[static_cast<size_t>(i)], self.dim(), &dim));
    ET_CHECK_OR_RETURN(!seen[dim], InvalidArgument, "aten::permute: %s does not name each dimension of %s once",
                       ShapeText(dims).text, ShapeText(self.sizes()).text);
    seen[dim] = true;
    window.sizes[i] = self.size(dim);
    window.strides[i] = self.stride(dim);
  }
  return emit(context, "aten::permute", self, window, out);
}

Error transpose_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim0, int64_t dim1, Tensor& out) {
  return transpose(context, self, dim0, dim1, out);
}

Error t_copy_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank("aten::t", "self", self, 0, 2));
  return transpose(context, self, 0, self.dim() == 2 ? 1 : 0, out);
}

Error expand_copy_out(KernelContext& context, const Tensor& self, IntArrayRef size, bool, Tensor& out) {
  const int64_t lead = static_cast<int64_t>(size.size()) - self.dim();
  ET_CHECK_OR_RETURN(lead >= 0 && size.size() <= kMaxRank, InvalidArgument,
                     "aten::expand: %s has fewer dimensions than %s, or too many", ShapeText(size).text,
                     ShapeText(self.sizes()).text);
  Window window = window_of(self);
  window.sizes = Sizes(size);
  window.strides = Sizes();
  window.strides.resize(size.size(), 0);
  for (int64_t i = 0; i < static_cast<int64_t>(size.size()); ++i) {
    const int64_t have = i < lead ? 1 : self.size(i - lead);
    if (window.sizes[i] == -1 && i >= lead) {
      window.sizes[i] = have;
    }
    ET_CHECK_OR_RETURN(window.sizes[i] >= 0 && (have == 1 || have == window.sizes[i]), InvalidArgument,
                       "aten::expand: shape %s does not expand to %s", ShapeText(self.sizes()).text,
                       ShapeText(size).text);
    window.strides[i] = have == 1 ? 0 : self.stride(i - lead);
  }
  return emit(context, "aten::expand", self, window, out);
}

Error slice_copy_tensor_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<int64_t> start,
                            std::optional<int64_t> end, int64_t step, Tensor& out) {
  int64_t first;
  int64_t length;
  ET_RETURN_IF_ERROR(normalize_slice("aten::slice", self, &dim, start, end, step, &first, &length));
  return emit(context, "aten::slice", self, slice_of(self, dim, first, length, step), out);
}

Error narrow_copy_out(KernelContext& context, const Tensor& self, int64_t dim, int64_t start, int64_t length,
                      Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank("aten::narrow", "self", self, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim("aten::narrow", dim, self.dim(), &dim));
  const int64_t size = self.size(dim);
  const int64_t first = start < 0 ? start + size : start;
  ET_CHECK_OR_RETURN(first >= 0 && length >= 0 && first <= size - length, InvalidArgument,
                     "aten::narrow: start %" PRId64 " and length %" PRId64 " are outside dim %" PRId64
                     " of size %" PRId64,
                     start, length, dim, size);
  return emit(context, "aten::narrow", self, slice_of(self, dim, first, length), out);
}

Error select_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim, int64_t index, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank("aten::select", "self", self, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim("aten::select", dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(normalize_index("aten::select", index, self, dim, &index));
  return emit(context, "aten::select", self, select_of(self, dim, index), out);
}

Error diagonal_copy_out(KernelContext& context, const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2,
                        Tensor& out) {
  Window window;
  ET_RETURN_IF_ERROR(diagonal_of("aten::diagonal", self, offset, dim1, dim2, &window));
  return emit(context, "aten::diagonal", self, window, out);
}

Error unfold_copy_out(KernelContext& context, const Tensor& self, int64_t dimension, int64_t size, int64_t step,
                      Tensor& out) {
  ET_RETURN_IF_ERROR(normalize_dim("aten::unfold", dimension, self.dim(), &dimension));
  Window window = window_of(self);
  const int64_t have = self.dim() == 0 ? 1 : self.size(dimension);
  ET_CHECK_OR_RETURN(size >= 0 && size <= have && step > 0 && self.dim() < static_cast<int64_t>(kMaxRank),
                     InvalidArgument,
                     "aten::unfold: size %" PRId64 " and step %" PRId64 " do not fit dim %" PRId64 " of size %" PRId64,
                     size, step, dimension, have);
  if (self.dim() == 0) {
    window.sizes.push_back(size);
    window.strides.push_back(1);
  } else {
    window.sizes.push_back(size);
    window.strides.push_back(window.strides[dimension]);
    window.sizes[dimension] = (have - size) / step + 1;
    window.strides[dimension] *= window.sizes[dimension] > 1 ? step : 1;
  }
  return emit(context, "aten::unfold", self, window, out);
}

Error as_strided_copy_out(KernelContext& context, const Tensor& self, IntArrayRef size, IntArrayRef stride,
                          std::optional<int64_t> storage_offset, Tensor& out) {
  Window window;
  ET_RETURN_IF_ERROR(strided_window(self, size, stride, storage_offset, &window));
  return emit(context, "aten::as_strided", self, window, out);
}

Error as_strided_scatter_out(KernelContext& context, const Tensor& self, const Tensor& src, IntArrayRef size,
                             IntArrayRef stride, std::optional<int64_t> storage_offset, Tensor& out) {
  constexpr const char* kOp = "aten::as_strided_scatter";
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_CHECK_OR_RETURN(equal(src.sizes(), size), InvalidArgument, "%s: src has shape %s, must have %s", kOp,
                     ShapeText(src.sizes()).text, ShapeText(size).text);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &out}));
  Window window;
  ET_RETURN_IF_ERROR(strided_window(out, size, stride, storage_offset, &window));
  ET_RETURN_IF_ERROR(copy_window(window_of(self), window_of(out)));
  return copy_window(window_of(src), window);
}

Error flip_out(KernelContext& context, const Tensor& self, IntArrayRef dims, Tensor& out) {
  Window window = window_of(self);
  for (const int64_t item : dims) {
    int64_t dim;
    ET_RETURN_IF_ERROR(normalize_dim("aten::flip", item, self.dim(), &dim));
    if (self.numel() > 0 && self.dim() > 0) {
      window.advance(dim, self.size(dim) - 1);
      window.strides[dim] *= -1;
    }
  }
  return emit(context, "aten::flip", self, window, out);
}

Error rot90_out(KernelContext& context, const Tensor& self, int64_t k, IntArrayRef dims, Tensor& out) {
  Window window;
  ET_RETURN_IF_ERROR(rotated(self, k, dims, &window));
  return emit(context, "aten::rot90", self, window, out);
}

Error view_as_real_copy_out(KernelContext& context, const Tensor& self, Tensor& out) {
  const bool is_double = self.scalar_type() == ScalarType::ComplexDouble;
  ET_CHECK_OR_RETURN(
      is_complex(self.scalar_type()) && out.scalar_type() == (is_double ? ScalarType::Double : ScalarType::Float),
      InvalidType, "aten::view_as_real: cannot view %s as %s", to_string(self.scalar_type()),
      to_string(out.scalar_type()));
  Window window = window_of(self);
  for (size_t i = 0; i < window.strides.size(); ++i) {
    window.strides[static_cast<int64_t>(i)] *= 2;
  }
  window.sizes.push_back(2);
  window.strides.push_back(1);
  window.dtype = out.scalar_type();
  ET_RETURN_IF_ERROR(resize_tensor(context, out, window.sizes));
  return copy_window(window, window_of(out));
}

}  // namespace et::kernels::portable
