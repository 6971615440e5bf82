// Operators that cut a tensor into parts or put parts together.
#include "kernels/portable/op_split_cat.h"

#include <algorithm>
#include <cstring>

#include "base/checked_math.h"
#include "kernels/portable/promote.h"
#include "kernels/portable/split_arguments.h"
#include "kernels/portable/strided_copy.h"
#include "threads/parallel.h"

namespace et::kernels::portable {
namespace {

Error check_dtypes(const char* op, TensorList out, const Tensor& self) {
  for (const Tensor& part : out) {
    ET_RETURN_IF_ERROR(check_same_dtype(op, "an output", part, self));
  }
  return Error::Ok;
}

Error emit(KernelContext& context, const Window& window, const Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, window.sizes));
  return copy_window(window, window_of(out));
}

// The old exception: an input of shape [0] is skipped whatever the others' rank is.
bool is_skipped(const Tensor& tensor) { return tensor.dim() == 1 && tensor.size(0) == 0; }

}  // namespace

Error split_with_sizes_copy_out(KernelContext& context, const Tensor& self, IntArrayRef split_sizes, int64_t dim,
                                TensorList out) {
  constexpr const char* kOp = "aten::split_with_sizes";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(check_part_count(kOp, out.size(), split_sizes.size()));
  ET_RETURN_IF_ERROR(check_dtypes(kOp, out, self));
  ET_RETURN_IF_ERROR(check_split_sizes(kOp, self.size(dim), split_sizes, dim));
  int64_t start = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    ET_RETURN_IF_ERROR(emit(context, slice_of(self, dim, start, split_sizes[i]), out[i]));
    start += split_sizes[i];
  }
  return Error::Ok;
}

Error split_copy_tensor_out(KernelContext& context, const Tensor& self, int64_t split_size, int64_t dim,
                            TensorList out) {
  constexpr const char* kOp = "aten::split";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  const int64_t size = self.size(dim);
  ET_RETURN_IF_ERROR(check_split(kOp, size, split_size, dim, out.size()));
  ET_RETURN_IF_ERROR(check_dtypes(kOp, out, self));
  int64_t start = 0;
  for (const Tensor& part : out) {
    ET_RETURN_IF_ERROR(emit(context, slice_of(self, dim, start, std::min(size - start, split_size)), part));
    start += split_size;
  }
  return Error::Ok;
}

Error unbind_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim, TensorList out) {
  constexpr const char* kOp = "aten::unbind";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(check_part_count(kOp, out.size(), static_cast<size_t>(self.size(dim))));
  ET_RETURN_IF_ERROR(check_dtypes(kOp, out, self));
  for (size_t i = 0; i < out.size(); ++i) {
    ET_RETURN_IF_ERROR(emit(context, select_of(self, dim, static_cast<int64_t>(i)), out[i]));
  }
  return Error::Ok;
}

Error cat_out(KernelContext& context, TensorList tensors, int64_t dim, Tensor& out) {
  constexpr const char* kOp = "aten::cat";
  ET_CHECK_OR_RETURN(!tensors.empty(), InvalidArgument, "%s: no tensors", kOp);
  const Tensor* shape = nullptr;  // the first that is not skipped
  for (size_t i = 0; i < tensors.size() && shape == nullptr; ++i) {
    shape = is_skipped(tensors[i]) ? nullptr : &tensors[i];
  }
  shape = shape == nullptr ? &tensors[0] : shape;
  ET_RETURN_IF_ERROR(check_rank(kOp, "tensors", *shape, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, shape->dim(), &dim));
  Sizes sizes(shape->sizes());
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    ET_RETURN_IF_ERROR(check_can_cast(kOp, tensor.scalar_type(), out.scalar_type()));
    if (is_skipped(tensor)) {
      continue;
    }
    bool fits = tensor.dim() == shape->dim();
    for (int64_t d = 0; fits && d < shape->dim(); ++d) {
      fits = d == dim || tensor.size(d) == shape->size(d);
    }
    ET_CHECK_OR_RETURN(fits, InvalidArgument,
                       "%s: tensor %zu has shape %s, which does not go with %s along dim %" PRId64, kOp, i,
                       ShapeText(tensor.sizes()).text, ShapeText(shape->sizes()).text, dim);
    total += tensor.size(dim);
  }
  sizes[dim] = total;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    if (!is_skipped(tensor)) {
      ET_RETURN_IF_ERROR(copy_window(window_of(tensor), slice_of(out, dim, start, tensor.size(dim))));
      start += tensor.size(dim);
    }
  }
  return Error::Ok;
}

Error block_diag_out(KernelContext& context, TensorList tensors, Tensor& out) {
  constexpr const char* kOp = "aten::block_diag";
  const auto rows_of = [](const Tensor& tensor) { return tensor.dim() == 2 ? tensor.size(0) : int64_t{1}; };
  const auto columns_of = [](const Tensor& tensor) {
    return tensor.dim() == 0 ? int64_t{1} : tensor.size(tensor.dim() - 1);
  };
  int64_t rows = 0;
  int64_t columns = 0;
  for (const Tensor& tensor : tensors) {
    ET_RETURN_IF_ERROR(check_rank(kOp, "tensors", tensor, 0, 2));
    ET_RETURN_IF_ERROR(check_same_dtype(kOp, "tensors", tensor, out));
    ET_CHECK_OR_RETURN(
        !add_overflow(rows, rows_of(tensor), &rows) && !add_overflow(columns, columns_of(tensor), &columns),
        InvalidArgument, "%s: the result fits no memory", kOp);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {rows, columns}));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&out}));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const size_t element = out.element_size();
  const auto width = static_cast<size_t>(columns) * element;
  char* to = static_cast<char*>(out.mutable_data_ptr());
  size_t start = 0;  // bytes
  for (const Tensor& tensor : tensors) {
    const int64_t count = rows_of(tensor);
    const size_t length = static_cast<size_t>(columns_of(tensor)) * element;
    const bool has_rows = is_contiguous(tensor);
    const char* const from = static_cast<const char*>(tensor.const_data_ptr());
    threads::parallel_for(context, static_cast<size_t>(count), threads::grain_for(width / element),
                          [&](size_t begin, size_t end) {
                            for (size_t r = begin; r < end; ++r) {
                              char* const row = to + r * width;
                              std::memset(row, 0, start);
                              if (has_rows && length != 0) {
                                std::memcpy(row + start, from + r * length, length);
                              }
                              std::memset(row + start + length, 0, width - start - length);
                            }
                          });
    if (!has_rows) {
      Window block = window_of(out);
      block.data = to + start;
      block.sizes = Sizes(tensor.sizes());
      ET_RETURN_IF_ERROR(copy_window(window_of(tensor), block));
    }
    to += static_cast<size_t>(count) * width;
    start += length;
  }
  return Error::Ok;
}

Error stack_out(KernelContext& context, TensorList tensors, int64_t dim, Tensor& out) {
  constexpr const char* kOp = "aten::stack";
  ET_CHECK_OR_RETURN(!tensors.empty(), InvalidArgument, "%s: no tensors", kOp);
  ET_RETURN_IF_ERROR(check_rank(kOp, "tensors", tensors[0], 0, kMaxRank - 1));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, tensors[0].dim() + 1, &dim));
  for (size_t i = 0; i < tensors.size(); ++i) {
    ET_CHECK_OR_RETURN(equal(tensors[i].sizes(), tensors[0].sizes()), InvalidArgument,
                       "%s: tensor %zu has shape %s, the first has %s", kOp, i, ShapeText(tensors[i].sizes()).text,
                       ShapeText(tensors[0].sizes()).text);
    ET_RETURN_IF_ERROR(check_can_cast(kOp, tensors[i].scalar_type(), out.scalar_type()));
  }
  Sizes sizes(tensors[0].sizes());
  sizes.insert(static_cast<size_t>(dim), static_cast<int64_t>(tensors.size()));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  for (size_t i = 0; i < tensors.size(); ++i) {
    ET_RETURN_IF_ERROR(copy_window(window_of(tensors[i]), select_of(out, dim, static_cast<int64_t>(i))));
  }
  return Error::Ok;
}

Error repeat_out(KernelContext& context, const Tensor& self, IntArrayRef repeats, Tensor& out) {
  constexpr const char* kOp = "aten::repeat";
  const int64_t rank = static_cast<int64_t>(repeats.size());
  const int64_t lead = rank - self.dim();
  ET_CHECK_OR_RETURN(lead >= 0, InvalidArgument, "%s: %zu repeats for shape %s", kOp, repeats.size(),
                     ShapeText(self.sizes()).text);
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  Sizes sizes;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t count = repeats[static_cast<size_t>(d)];
    int64_t size;
    ET_CHECK_OR_RETURN(count >= 0 && !mul_overflow(count, d < lead ? int64_t{1} : self.size(d - lead), &size),
                       InvalidArgument, "%s: negative count in %s, or one that does not fit memory", kOp,
                       ShapeText(repeats).text);
    sizes.push_back(size);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  // Copy number (r0, r1, …) of the input starts at (r0 * size0, r1 * size1, …).
  Sizes copy;
  copy.resize(repeats.size(), 0);
  Window to = window_of(out);
  for (int64_t d = 0; d < rank; ++d) {
    to.sizes[d] = d < lead ? 1 : self.size(d - lead);
  }
  for (;;) {
    Window part = to;
    for (int64_t d = 0; d < rank; ++d) {
      part.advance(d, copy[d] * to.sizes[d]);
    }
    ET_RETURN_IF_ERROR(copy_window(window_of(self), part));
    int64_t d = rank - 1;
    for (; d >= 0 && ++copy[d] == repeats[static_cast<size_t>(d)]; --d) {
      copy[d] = 0;
    }
    if (d < 0) {
      return Error::Ok;
    }
  }
}

Error roll_out(KernelContext& context, const Tensor& self, IntArrayRef shifts, IntArrayRef dims, Tensor& out) {
  constexpr const char* kOp = "aten::roll";
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_CHECK_OR_RETURN(shifts.size() == dims.size() || (dims.empty() && shifts.size() == 1), InvalidArgument,
                     "%s: %zu shifts for %zu dims", kOp, shifts.size(), dims.size());
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  const auto wrap = [](int64_t shift, int64_t size) { return ((shift % size) + size) % size; };
  if (dims.empty()) {  // as one row
    ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &out}));
    const int64_t n = self.numel();
    const int64_t shift = wrap(shifts[0], n);
    Window from = window_of(self);
    Window to = window_of(out);
    from.sizes = to.sizes = Sizes(IntArrayRef({n}));
    from.strides = to.strides = Sizes(IntArrayRef({1}));
    Window tail = from;
    tail.advance(0, n - shift);
    from.sizes[0] = n - shift;
    tail.sizes[0] = shift;
    Window middle = to;
    middle.advance(0, shift);
    to.sizes[0] = shift;
    middle.sizes[0] = n - shift;
    ET_RETURN_IF_ERROR(copy_window(tail, to));
    return copy_window(from, middle);
  }
  ET_CHECK_OR_RETURN(self.dim() > 0, InvalidArgument, "%s: a tensor without dimensions has none to roll", kOp);
  // Each rolled dimension falls into two pieces; every combination of pieces is one copy.
  int64_t rolled[kMaxRank];
  int64_t amount[kMaxRank] = {};
  size_t count = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t dim;
    ET_RETURN_IF_ERROR(normalize_dim(kOp, dims[i], self.dim(), &dim));
    bool seen = false;
    for (size_t k = 0; k < count; ++k) {
      seen = seen || rolled[k] == dim;
    }
    if (!seen) {
      rolled[count++] = dim;
    }
    amount[dim] = wrap(amount[dim] + wrap(shifts[i], self.size(dim)), self.size(dim));
  }
  for (uint32_t piece = 0; piece < (1u << count); ++piece) {
    Window from = window_of(self);
    Window to = window_of(out);
    for (size_t k = 0; k < count; ++k) {
      const int64_t dim = rolled[k];
      const int64_t size = self.size(dim);
      const bool tail = (piece >> k & 1u) != 0;
      const int64_t length = tail ? amount[dim] : size - amount[dim];
      if (length > 0) {
        from.advance(dim, tail ? size - amount[dim] : 0);
        to.advance(dim, tail ? 0 : amount[dim]);
      }
      from.sizes[dim] = to.sizes[dim] = length;
    }
    ET_RETURN_IF_ERROR(copy_window(from, to));
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
