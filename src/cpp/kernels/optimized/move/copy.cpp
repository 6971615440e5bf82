// Operators that move elements: permute, transpose, flip, rot90, channel_shuffle, slice, select, expand, split, cat,
// views and changes of dim order. Each describes a window on its input and copies it; element types stay, so every
// dtype fits.

#include "kernels/optimized/move/strided_copy.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"

namespace et::kernels::optimized::move {
namespace {

using portable::Sizes;
using portable::slice_of;
using portable::window_of;

Error emit(KernelContext& context, const Window& window, const Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, window.sizes));
  if (window.data != out.const_data_ptr()) {
    copy_elements(context, window, window_of(out));
  }
  return Error::Ok;
}

Error permute_copy_out(KernelContext& context, const Tensor& self, IntArrayRef dims, Tensor& out) {
  const bool rank_fits = static_cast<int64_t>(dims.size()) == self.dim();
  Window window = window_of(self);
  uint32_t seen = 0;
  for (int64_t i = 0; rank_fits && i < self.dim(); ++i) {
    int64_t dim;
    ET_RETURN_IF_ERROR(portable::normalize_dim("aten::permute", dims[static_cast<size_t>(i)], self.dim(), &dim));
    seen |= 1u << dim;
    window.sizes[i] = self.size(dim);
    window.strides[i] = self.stride(dim);
  }
  ET_CHECK_OR_RETURN(rank_fits && seen == (1u << dims.size()) - 1, InvalidArgument,
                     "aten::permute: %s does not name each dimension of %s once", ShapeText(dims).text,
                     ShapeText(self.sizes()).text);
  return emit(context, window, out);
}

Error transpose(KernelContext& context, const Tensor& self, int64_t dim0, int64_t dim1, const Tensor& out) {
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::transpose", dim0, self.dim(), &dim0));
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::transpose", dim1, self.dim(), &dim1));
  Window window = window_of(self);
  if (self.dim() > 0) {
    window.sizes[dim0] = self.size(dim1);
    window.sizes[dim1] = self.size(dim0);
    window.strides[dim0] = self.stride(dim1);
    window.strides[dim1] = self.stride(dim0);
  }
  return emit(context, window, out);
}

Error transpose_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim0, int64_t dim1, Tensor& out) {
  return transpose(context, self, dim0, dim1, out);
}

Error t_copy_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_RETURN_IF_ERROR(portable::check_rank("aten::t", "self", self, 0, 2));
  return transpose(context, self, 0, self.dim() == 2 ? 1 : 0, out);
}

Error expand_copy_out(KernelContext& context, const Tensor& self, IntArrayRef size, bool, Tensor& out) {
  const int64_t lead = static_cast<int64_t>(size.size()) - self.dim();
  Window window = window_of(self);
  window.sizes = Sizes(size);
  window.strides = Sizes();
  window.strides.resize(size.size(), 0);
  bool fits = lead >= 0 && size.size() <= runtime::kMaxRank;
  for (int64_t i = 0; fits && i < static_cast<int64_t>(size.size()); ++i) {
    const int64_t have = i < lead ? 1 : self.size(i - lead);
    if (window.sizes[i] == -1 && i >= lead) {
      window.sizes[i] = have;
    }
    fits = window.sizes[i] >= 0 && (have == 1 || have == window.sizes[i]);
    window.strides[i] = have == 1 ? 0 : self.stride(i - lead);
  }
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "aten::expand: shape %s does not expand to %s",
                     ShapeText(self.sizes()).text, ShapeText(size).text);
  return emit(context, window, out);
}

Error slice_copy_tensor_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<int64_t> start,
                            std::optional<int64_t> end, int64_t step, Tensor& out) {
  int64_t first;
  int64_t length;
  ET_RETURN_IF_ERROR(portable::normalize_slice("aten::slice", self, &dim, start, end, step, &first, &length));
  return emit(context, slice_of(self, dim, first, length, step), out);
}

Error select_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim, int64_t index, Tensor& out) {
  ET_RETURN_IF_ERROR(portable::check_rank("aten::select", "self", self, 1, runtime::kMaxRank));
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::select", dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(portable::normalize_index("aten::select", index, self, dim, &index));
  return emit(context, portable::select_of(self, dim, index), out);
}

Error flip_out(KernelContext& context, const Tensor& self, IntArrayRef dims, Tensor& out) {
  Window window = window_of(self);
  for (const int64_t item : dims) {
    int64_t dim;
    ET_RETURN_IF_ERROR(portable::normalize_dim("aten::flip", item, self.dim(), &dim));
    if (self.numel() > 0 && self.dim() > 0) {
      window.advance(dim, self.size(dim) - 1);
      window.strides[dim] *= -1;
    }
  }
  return emit(context, window, out);
}

Error rot90_out(KernelContext& context, const Tensor& self, int64_t k, IntArrayRef dims, Tensor& out) {
  Window window;
  ET_RETURN_IF_ERROR(portable::rotated(self, k, dims, &window));
  return emit(context, window, out);
}

/// [batch, groups, channels of a group, …] → [batch, channels of a group, groups, …], in the shape of `self`.
Error channel_shuffle_out(KernelContext& context, const Tensor& self, int64_t groups, Tensor& out) {
  Window from;
  ET_RETURN_IF_ERROR(portable::channels_shuffled(self, groups, &from));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  Window to = window_of(out);
  portable::split_dim(to, 1, groups);
  copy_elements(context, from, to);
  return Error::Ok;
}

/// Same shape, the output's dim order.
Error copy_to(KernelContext& context, const Tensor& self, const Tensor& out) {
  return emit(context, window_of(self), out);
}

Error clone_out(KernelContext& context, const Tensor& self, std::optional<int64_t>, Tensor& out) {
  return copy_to(context, self, out);
}
Error to_dim_order_copy_out(KernelContext& context, const Tensor& self, bool, std::optional<IntArrayRef>, Tensor& out) {
  return copy_to(context, self, out);
}
Error clone_dim_order_out(KernelContext& context, const Tensor& self, bool, std::optional<IntArrayRef>, Tensor& out) {
  return copy_to(context, self, out);
}

/// Errors: InvalidArgument unless the tensors are of one rank and equal in all dimensions but `dim`.
Error check_parts(TensorList tensors, int64_t dim, int64_t* total) {
  const Tensor& shape = tensors[0];
  *total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    bool fits = tensors[i].dim() == shape.dim();
    for (int64_t d = 0; fits && d < shape.dim(); ++d) {
      fits = d == dim || tensors[i].size(d) == shape.size(d);
    }
    ET_CHECK_OR_RETURN(fits, InvalidArgument,
                       "aten::cat: tensor %zu has shape %s, which does not go with %s along dim %" PRId64, i,
                       ShapeText(tensors[i].sizes()).text, ShapeText(shape.sizes()).text, dim);
    *total += tensors[i].size(dim);
  }
  return Error::Ok;
}

Error cat_out(KernelContext& context, TensorList tensors, int64_t dim, Tensor& out) {
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::cat", dim, tensors[0].dim(), &dim));
  Sizes sizes(tensors[0].sizes());
  ET_RETURN_IF_ERROR(check_parts(tensors, dim, &sizes[dim]));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.numel() > 0) {
      copy_elements(context, window_of(tensor), slice_of(out, dim, start, tensor.size(dim)));
    }
    start += tensor.size(dim);
  }
  return Error::Ok;
}

Error split_with_sizes_copy_out(KernelContext& context, const Tensor& self, IntArrayRef split_sizes, int64_t dim,
                                TensorList out) {
  ET_RETURN_IF_ERROR(portable::check_rank("aten::split_with_sizes", "self", self, 1, runtime::kMaxRank));
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::split_with_sizes", dim, self.dim(), &dim));
  int64_t left = self.size(dim);
  bool fits = out.size() == split_sizes.size();
  for (const int64_t size : split_sizes) {
    fits = fits && size >= 0 && size <= left;
    left -= fits ? size : 0;
  }
  ET_CHECK_OR_RETURN(fits && left == 0, InvalidArgument,
                     "aten::split_with_sizes: %s does not cut dim %" PRId64 " of size %" PRId64 " into %zu outputs",
                     ShapeText(split_sizes).text, dim, self.size(dim), out.size());
  int64_t start = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    ET_RETURN_IF_ERROR(emit(context, slice_of(self, dim, start, split_sizes[i]), out[i]));
    start += split_sizes[i];
  }
  return Error::Ok;
}

Error split_copy_tensor_out(KernelContext& context, const Tensor& self, int64_t split_size, int64_t dim,
                            TensorList out) {
  ET_RETURN_IF_ERROR(portable::check_rank("aten::split", "self", self, 1, runtime::kMaxRank));
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::split", dim, self.dim(), &dim));
  const int64_t size = self.size(dim);
  const int64_t parts = size == 0 ? 1 : split_size > 0 ? (size - 1) / split_size + 1 : 0;
  ET_CHECK_OR_RETURN(parts == static_cast<int64_t>(out.size()) && split_size >= 0, InvalidArgument,
                     "aten::split: split_size %" PRId64 " does not cut dim %" PRId64 " of size %" PRId64
                     " into %zu outputs",
                     split_size, dim, size, out.size());
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t start = i * split_size;
    const int64_t length = size - start < split_size ? size - start : split_size;
    ET_RETURN_IF_ERROR(emit(context, slice_of(self, dim, start, length), out[static_cast<size_t>(i)]));
  }
  return Error::Ok;
}

Error unbind_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim, TensorList out) {
  ET_RETURN_IF_ERROR(portable::check_rank("aten::unbind", "self", self, 1, runtime::kMaxRank));
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::unbind", dim, self.dim(), &dim));
  ET_CHECK_OR_RETURN(static_cast<int64_t>(out.size()) == self.size(dim), InvalidArgument,
                     "aten::unbind: %zu outputs for dim %" PRId64 " of size %" PRId64, out.size(), dim, self.size(dim));
  for (size_t i = 0; i < out.size(); ++i) {
    ET_RETURN_IF_ERROR(emit(context, portable::select_of(self, dim, static_cast<int64_t>(i)), out[i]));
  }
  return Error::Ok;
}

bool same_dtype(const EValue& a, const EValue& b) { return a.to_tensor().scalar_type() == b.to_tensor().scalar_type(); }

/// fn(self, …, out) with one dtype.
bool fits_copy(Arguments args) { return same_dtype(*args[0], *args[args.size() - 1]); }

/// Each instruction's list is looked at during a load, which a file could make as long as it likes.
constexpr size_t kMostParts = 256;

/// cat(tensors, dim, out): one dtype and one rank; an input of rank 1 may be the old "empty" that is skipped.
bool fits_cat(Arguments args) {
  const Tensor out = args[2]->to_tensor();
  if (args[0]->tensor_list_items().size > kMostParts) {
    return false;
  }
  const Span<const Tensor> tensors = args[0]->to_tensor_list();
  if (tensors.empty() || out.dim() == 0) {
    return false;
  }
  for (const Tensor& tensor : tensors) {
    if (tensor.scalar_type() != out.scalar_type() || tensor.dim() != out.dim() || tensor.numel() == 0) {
      return false;
    }
  }
  return true;
}

/// split(self, …, outs)
bool fits_split(Arguments args) {
  const EValue& parts = *args[args.size() - 1];
  if (parts.tensor_list_items().size > kMostParts) {
    return false;
  }
  for (const Tensor& part : parts.to_tensor_list()) {
    if (part.scalar_type() != args[0]->to_tensor().scalar_type()) {
      return false;
    }
  }
  return true;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&cat_out, &fits_cat>("aten::cat.out"),
    make_fitting_kernel<&channel_shuffle_out, &fits_copy>("aten::channel_shuffle.out"),
    make_fitting_kernel<&clone_dim_order_out, &fits_copy>("dim_order_ops::_clone_dim_order.out"),
    make_fitting_kernel<&clone_out, &fits_copy, 0b1>("aten::clone.out"),
    make_fitting_kernel<&expand_copy_out, &fits_copy>("aten::expand_copy.out"),
    make_fitting_kernel<&flip_out, &fits_copy>("aten::flip.out"),
    make_fitting_kernel<&permute_copy_out, &fits_copy>("aten::permute_copy.out"),
    make_fitting_kernel<&rot90_out, &fits_copy>("aten::rot90.out"),
    make_fitting_kernel<&select_copy_int_out, &fits_copy>("aten::select_copy.int_out"),
    make_fitting_kernel<&slice_copy_tensor_out, &fits_copy>("aten::slice_copy.Tensor_out"),
    make_fitting_kernel<&split_copy_tensor_out, &fits_split>("aten::split_copy.Tensor_out"),
    make_fitting_kernel<&split_with_sizes_copy_out, &fits_split>("aten::split_with_sizes_copy.out"),
    make_fitting_kernel<&t_copy_out, &fits_copy>("aten::t_copy.out"),
    // Before cast.cpp's, which converts.
    at_priority(runtime::kPriorityOptimized + 1,
                make_fitting_kernel<&to_dim_order_copy_out, &fits_copy>("dim_order_ops::_to_dim_order_copy.out")),
    make_fitting_kernel<&transpose_copy_int_out, &fits_copy>("aten::transpose_copy.int_out"),
    make_fitting_kernel<&unbind_copy_int_out, &fits_split>("aten::unbind_copy.int_out"),
};

}  // namespace

ET_KERNEL_TABLE(copy, kKernels)

}  // namespace et::kernels::optimized::move
