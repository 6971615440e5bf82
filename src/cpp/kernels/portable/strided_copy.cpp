#include "kernels/portable/strided_copy.h"

#include <cstring>

#include "kernels/portable/at_once.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/loop_nest.h"
#include "kernels/portable/promote.h"

namespace et::kernels::portable {
namespace {

template <typename T>
void copy_run(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t n) {
  constexpr int64_t size = sizeof(T);
  if (to_stride == size && from_stride == size) {
    std::memmove(to, from, static_cast<size_t>(n * size));  // tensors of a program may overlap
    return;
  }
  if (to_stride == size && from_stride == 0) {
    fill_run(to, from, sizeof(T), n);
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(T));
  }
}

/// Whether runs of the target are columns of the source: the loop around walks along its rows.
bool is_transposition(const LoopNest& nest, int64_t size) {
#ifdef ET_SMALL_STACK  // firmware, whose processors have no cache
  static_cast<void>(nest), static_cast<void>(size);
  return false;
#else
  return nest.loops() >= 2 && nest.run_stride(0) == size && nest.run_stride(1) > size &&
         nest.stride(1, nest.loops() - 2) == size;
#endif
}

/// The same copy in tiles: a line of a cache that is read for one run serves those after it.
template <typename T>
void copy_transposed(const LoopNest& nest) {
  constexpr int64_t size = sizeof(T);
  constexpr int64_t kRows = 64 / size;
  constexpr int64_t kColumns = 8;
  const int64_t rows = nest.loop_size(nest.loops() - 2);
  const int64_t to_row = nest.stride(0, nest.loops() - 2);
  const int64_t from_column = nest.run_stride(1);
  nest.for_each_run<2>([&](char* const* pointers, int64_t columns) {
    for (int64_t row = 0; row < rows; row += kRows) {
      const int64_t end = row + kRows < rows ? row + kRows : rows;
      for (int64_t column = 0; column < columns; column += kColumns) {
        const int64_t count = columns - column < kColumns ? columns - column : kColumns;
        for (int64_t i = row; i < end; ++i) {
          char* const to = pointers[0] + i * to_row + column * size;
          const char* const from = pointers[1] + i * size + column * from_column;
          for (int64_t j = 0; j < count; ++j) {
            std::memcpy(to + j * size, from + j * from_column, sizeof(T));
          }
        }
      }
    }
  });
}

template <typename C>
void convert_runs(const LoopNest& nest, ScalarType from, ScalarType to) {
  constexpr int64_t kChunk = kElementsAtOnce;
  C buffer[kChunk];
  const int64_t to_stride = nest.run_stride(0);
  const int64_t from_stride = nest.run_stride(1);
  const int64_t to_size = static_cast<int64_t>(element_size(to));
  const int64_t from_size = static_cast<int64_t>(element_size(from));
  nest.for_each_run([&](char* const* pointers, int64_t n) {
    for (int64_t start = 0; start < n; start += kChunk) {
      const int64_t count = n - start < kChunk ? n - start : kChunk;
      load(from, pointers[1] + start * from_stride, from_stride / from_size, count, buffer);
      store(to, buffer, count, pointers[0] + start * to_stride, to_stride / to_size);
    }
  });
}

// Real to complex, and between the complex types: rare, so one element at a time through doubles.
void convert_to_complex(const LoopNest& nest, ScalarType from, ScalarType to) {
  const int64_t to_stride = nest.run_stride(0);
  const int64_t from_stride = nest.run_stride(1);
  nest.for_each_run([&](char* const* pointers, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const char* source = pointers[1] + i * from_stride;
      ComplexDouble value;
      if (from == ScalarType::ComplexFloat) {
        const auto& narrow = *reinterpret_cast<const ComplexFloat*>(source);
        value = {narrow.re, narrow.im};
      } else if (from == ScalarType::ComplexDouble) {
        value = *reinterpret_cast<const ComplexDouble*>(source);
      } else {
        value = {load_one<double>(from, source), 0.0};
      }
      char* target = pointers[0] + i * to_stride;
      if (to == ScalarType::ComplexFloat) {
        *reinterpret_cast<ComplexFloat*>(target) = {static_cast<float>(value.re), static_cast<float>(value.im)};
      } else {
        *reinterpret_cast<ComplexDouble*>(target) = value;
      }
    }
  });
}

}  // namespace

Window window_of(const Tensor& tensor) {
  return {static_cast<char*>(const_cast<void*>(tensor.const_data_ptr())), Sizes(tensor.sizes()),
          Sizes(tensor.strides()), tensor.scalar_type()};
}

Window slice_of(const Tensor& tensor, int64_t dim, int64_t start, int64_t length, int64_t step) {
  Window window = window_of(tensor);
  if (length > 0) {
    window.advance(dim, start);
  }
  window.sizes[dim] = length;
  window.strides[dim] *= length > 1 ? step : 1;  // a step beyond the end need not fit 64 bits
  return window;
}

Window select_of(const Tensor& tensor, int64_t dim, int64_t index) {
  Window window = window_of(tensor);
  window.advance(dim, index);
  window.sizes.erase(static_cast<size_t>(dim));
  window.strides.erase(static_cast<size_t>(dim));
  return window;
}

Error diagonal_of(const char* op, const Tensor& tensor, int64_t offset, int64_t dim1, int64_t dim2, Window* out) {
  ET_RETURN_IF_ERROR(check_rank(op, "self", tensor, 2, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(op, dim1, tensor.dim(), &dim1));
  ET_RETURN_IF_ERROR(normalize_dim(op, dim2, tensor.dim(), &dim2));
  ET_CHECK_OR_RETURN(dim1 != dim2, InvalidArgument, "%s: dim1 and dim2 are both %" PRId64, op, dim1);
  Window window = window_of(tensor);
  const int64_t rows = tensor.size(dim1) + (offset < 0 ? offset : 0);
  const int64_t columns = tensor.size(dim2) - (offset > 0 ? offset : 0);
  const int64_t length = rows < columns ? rows : columns;
  if (length > 0) {
    window.advance(offset < 0 ? dim1 : dim2, offset < 0 ? -offset : offset);
  }
  const int64_t stride = window.strides[dim1] + window.strides[dim2];
  for (const int64_t dim : {dim1 > dim2 ? dim1 : dim2, dim1 > dim2 ? dim2 : dim1}) {
    window.sizes.erase(static_cast<size_t>(dim));
    window.strides.erase(static_cast<size_t>(dim));
  }
  window.sizes.push_back(length > 0 ? length : 0);
  window.strides.push_back(stride);
  *out = window;
  return Error::Ok;
}

Error rotated(const Tensor& tensor, int64_t k, IntArrayRef dims, Window* out) {
  constexpr const char* kOp = "aten::rot90";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", tensor, 2, kMaxRank));
  ET_CHECK_OR_RETURN(dims.size() == 2, InvalidArgument, "%s: %zu dims, must be 2", kOp, dims.size());
  int64_t first;
  int64_t second;
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dims[0], tensor.dim(), &first));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dims[1], tensor.dim(), &second));
  ET_CHECK_OR_RETURN(first != second, InvalidArgument, "%s: both dims are %" PRId64, kOp, first);
  Window window = window_of(tensor);
  const auto flip = [&](int64_t dim) {
    if (tensor.numel() > 0) {
      window.advance(dim, tensor.size(dim) - 1);
    }
    window.strides[dim] *= -1;
  };
  const int64_t turns = ((k % 4) + 4) % 4;
  if (turns == 1 || turns == 2) {
    flip(second);
  }
  if (turns == 3 || turns == 2) {
    flip(first);
  }
  if (turns % 2 == 1) {
    window.sizes[first] = tensor.size(second);
    window.sizes[second] = tensor.size(first);
    const int64_t stride = window.strides[first];
    window.strides[first] = window.strides[second];
    window.strides[second] = stride;
  }
  *out = window;
  return Error::Ok;
}

Error channels_shuffled(const Tensor& tensor, int64_t groups, Window* out) {
  constexpr const char* kOp = "aten::channel_shuffle";
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", tensor, 3, kMaxRank - 1));
  ET_CHECK_OR_RETURN(groups > 0 && tensor.size(1) % groups == 0, InvalidArgument,
                     "%s: %" PRId64 " channels do not make %" PRId64 " groups", kOp, tensor.size(1), groups);
  *out = window_of(tensor);
  if (tensor.numel() > 0) {
    split_dim(*out, 1, tensor.size(1) / groups);
    move_dim(*out, 1, 2);
  }
  return Error::Ok;
}

void split_dim(Window& window, int64_t dim, int64_t inner) {
  window.sizes.insert(static_cast<size_t>(dim) + 1, inner);
  window.strides.insert(static_cast<size_t>(dim) + 1, window.strides[dim]);
  window.sizes[dim] /= inner;
  window.strides[dim] *= inner;
}

void move_dim(Window& window, int64_t from, int64_t to) {
  const int64_t size = window.sizes[from];
  const int64_t stride = window.strides[from];
  window.sizes.erase(static_cast<size_t>(from));
  window.strides.erase(static_cast<size_t>(from));
  window.sizes.insert(static_cast<size_t>(to), size);
  window.strides.insert(static_cast<size_t>(to), stride);
}

Error normalize_slice(const char* op, const Tensor& tensor, int64_t* dim, std::optional<int64_t> start,
                      std::optional<int64_t> end, int64_t step, int64_t* first, int64_t* length) {
  ET_RETURN_IF_ERROR(check_rank(op, "self", tensor, 1, kMaxRank));
  ET_RETURN_IF_ERROR(normalize_dim(op, *dim, tensor.dim(), dim));
  ET_CHECK_OR_RETURN(step > 0, InvalidArgument, "%s: step is %" PRId64 ", must be positive", op, step);
  const int64_t size = tensor.size(*dim);
  const auto clip = [size](int64_t i) {
    const int64_t index = i < 0 ? i + size : i;
    return index < 0 ? 0 : index > size ? size : index;
  };
  const int64_t low = clip(start.value_or(0));
  const int64_t high = clip(end.value_or(size));
  *first = low;
  *length = high > low ? (high - low - 1) / step + 1 : 0;
  return Error::Ok;
}

Error normalize_index(const char* op, int64_t index, const Tensor& tensor, int64_t dim, int64_t* out) {
  const int64_t size = tensor.size(dim);
  ET_CHECK_OR_RETURN(index >= -size && index < size, InvalidArgument,
                     "%s: index %" PRId64 " is out of range for dim %" PRId64 " of size %" PRId64, op, index, dim,
                     size);
  *out = index < 0 ? index + size : index;
  return Error::Ok;
}

Error copy_window(const Window& from, const Window& to) {
  ET_CHECK_OR_RETURN(!is_complex(from.dtype) || is_complex(to.dtype), InvalidType, "cannot copy %s elements to %s",
                     to_string(from.dtype), to_string(to.dtype));
  LoopNest nest(to.sizes);
  nest.add(to.data, to.strides, to.element_size());
  Sizes strides = from.strides;
  for (size_t i = 0; i < from.sizes.size(); ++i) {
    if (from.sizes[static_cast<int64_t>(i)] == 1) {
      strides[static_cast<int64_t>(i)] = 0;
    }
  }
  nest.add(from.data, strides, from.element_size());
  nest.simplify();
  if (nest.empty()) {
    return Error::Ok;
  }
  if (from.dtype == to.dtype) {
    if (from.data == to.data && equal(IntArrayRef(from.strides), IntArrayRef(to.strides))) {
      return Error::Ok;
    }
    return dispatch_by_size(from.element_size(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (is_transposition(nest, sizeof(T))) {
        copy_transposed<T>(nest);
        return Error::Ok;
      }
      const int64_t to_stride = nest.run_stride(0);
      const int64_t from_stride = nest.run_stride(1);
      nest.for_each_run(
          [&](char* const* pointers, int64_t n) { copy_run<T>(pointers[0], to_stride, pointers[1], from_stride, n); });
      return Error::Ok;
    });
  }
  if (is_complex(to.dtype)) {
    convert_to_complex(nest, from.dtype, to.dtype);
    return Error::Ok;
  }
  return dispatch_compute(from.dtype, [&](auto zero) {
    convert_runs<decltype(zero)>(nest, from.dtype, to.dtype);
    return Error::Ok;
  });
}

Error copy_tensor(KernelContext& context, const Tensor& from, const Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, from.sizes()));
  return copy_window(window_of(from), window_of(out));
}

Error copy_same_dtype(KernelContext& context, const char* op, const Tensor& from, const Tensor& out) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, from));
  return copy_tensor(context, from, out);
}

void copy_reshaped(const Tensor& from, const Tensor& to) {
  if (from.const_data_ptr() == to.const_data_ptr() || from.numel() == 0) {
    return;
  }
  if (is_contiguous(from) && is_contiguous(to)) {
    std::memmove(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
    return;
  }
  // Two odometers over the same count of elements; the inner runs have different lengths.
  const size_t size = from.element_size();
  LoopNest target(to.sizes());
  target.add(to.const_data_ptr(), to.strides(), size);
  const Sizes strides(from.strides());
  int64_t index[kMaxRank] = {};
  const char* source = static_cast<const char*>(from.const_data_ptr());
  target.for_each_run([&](char* const* pointers, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(pointers[0] + i * target.run_stride(0), source, size);
      for (int64_t d = from.dim() - 1; d >= 0; --d) {
        source += strides[d] * static_cast<int64_t>(size);
        if (++index[d] < from.size(d)) {
          break;
        }
        source -= strides[d] * from.size(d) * static_cast<int64_t>(size);
        index[d] = 0;
      }
    }
  });
}

void fill_run(char* to, const void* value, size_t element_size, int64_t n) {
  constexpr size_t kPiece = 4096;  // what is repeated stays in the first cache
  const size_t total = static_cast<size_t>(n) * element_size;
  if (n <= 0) {
    return;
  }
  if (element_size == 1) {
    std::memset(to, *static_cast<const unsigned char*>(value), total);
    return;
  }
  size_t done = element_size;
  std::memmove(to, value, done);
  while (done < total) {
    const size_t most = done < kPiece ? done : kPiece;
    const size_t count = total - done < most ? total - done : most;
    std::memcpy(to + done, to, count);
    done += count;
  }
}

void fill_window(const Window& to, const void* value) {
  const Window one{static_cast<char*>(const_cast<void*>(value)), Sizes(), Sizes(), to.dtype};
  const Error error = copy_window(one, to);
  static_cast<void>(error);  // equal dtypes: cannot fail
}

}  // namespace et::kernels::portable
