#include "kernels/portable/shape.h"

#include "base/checked_math.h"
#include "kernels/portable/dispatch.h"

namespace et::kernels::portable {

int64_t Sizes::numel() const { return product(*this, 0, rank_); }

int64_t product(IntArrayRef sizes, size_t first, size_t last) {
  int64_t result = 1;
  for (size_t i = first; i < last; ++i) {
    result *= sizes[i];
  }
  return result;
}

Error normalize_dim(const char* op, int64_t dim, int64_t rank, int64_t* out) {
  const int64_t range = rank == 0 ? 1 : rank;
  ET_CHECK_OR_RETURN(dim >= -range && dim < range, InvalidArgument,
                     "%s: dim %" PRId64 " is outside [%" PRId64 ", %" PRId64 ")", op, dim, -range, range);
  *out = dim < 0 ? dim + range : dim;
  return Error::Ok;
}

Error broadcast_sizes(const char* op, IntArrayRef a, IntArrayRef b, Sizes* out) {
  const size_t rank = a.size() > b.size() ? a.size() : b.size();
  Sizes result;
  result.resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i + a.size() >= rank ? a[i + a.size() - rank] : 1;
    const int64_t y = i + b.size() >= rank ? b[i + b.size() - rank] : 1;
    ET_CHECK_OR_RETURN(x == y || x == 1 || y == 1, InvalidArgument, "%s: shapes %s and %s do not broadcast", op,
                       ShapeText(a).text, ShapeText(b).text);
    result[static_cast<int64_t>(i)] = x == 1 ? y : x;
  }
  *out = result;
  return Error::Ok;
}

void spread_strides(const Tensor& image, int64_t spatial, int64_t (&strides)[5]) {
  const int64_t lead = image.dim() - spatial;
  strides[0] = lead == 2 ? image.stride(0) : 0;
  strides[1] = image.stride(lead - 1);
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t source = d - (3 - spatial);
    strides[2 + d] = source >= 0 ? image.stride(lead + source) : 0;
  }
}

Result<int64_t> count_pairs(const char* op, int64_t n) {
  int64_t twice = 0;
  ET_CHECK_OR_RETURN(!mul_overflow(n, n - 1, &twice), InvalidArgument,
                     "%s: the pairs of %" PRId64 " do not fit 63 bits", op, n);
  return twice / 2;
}

int64_t list_item(IntArrayRef list, size_t i, int64_t when_empty) {
  return list.empty() ? when_empty : list.size() == 1 ? list[0] : i < list.size() ? list[i] : -1;  // which is refused
}

Error check_same_dtype(const char* op, const char* name, const Tensor& tensor, const Tensor& like) {
  ET_CHECK_OR_RETURN(tensor.scalar_type() == like.scalar_type(), InvalidArgument, "%s: %s is %s, expected %s", op, name,
                     to_string(tensor.scalar_type()), to_string(like.scalar_type()));
  return Error::Ok;
}

Error resize_selection(KernelContext& context, const char* op, const Tensor& self, IntArrayRef sizes,
                       const Tensor& values, const Tensor& indices) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "values", values, self));
  ET_CHECK_OR_RETURN(indices.scalar_type() == ScalarType::Long, InvalidType, "%s: indices are %s, must be torch.int64",
                     op, to_string(indices.scalar_type()));
  ET_RETURN_IF_ERROR(resize_tensor(context, values, sizes));
  return resize_tensor(context, indices, sizes);
}

Error check_rank(const char* op, const char* name, const Tensor& tensor, int64_t low, int64_t high) {
  ET_CHECK_OR_RETURN(tensor.dim() >= low && tensor.dim() <= high, InvalidArgument,
                     "%s: %s has shape %s, expected %" PRId64 " to %" PRId64 " dimensions", op, name,
                     ShapeText(tensor.sizes()).text, low, high);
  return Error::Ok;
}

Error check_row_major(const char* op, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) {
    ET_CHECK_OR_RETURN(is_contiguous(*tensor), NotSupported,
                       "%s: a tensor of shape %s is not row-major; convert its dim order first", op,
                       ShapeText(tensor->sizes()).text);
  }
  return Error::Ok;
}

bool is_contiguous(const Tensor& tensor) {
  int64_t stride = 1;
  for (int64_t i = tensor.dim() - 1; i >= 0; --i) {
    if (tensor.size(i) != 1 && tensor.stride(i) != stride) {
      return tensor.numel() == 0;
    }
    stride *= tensor.size(i);
  }
  return true;
}

bool is_channels_last(const Tensor& tensor) {
  const int64_t rank = tensor.dim();
  if (rank < 3 || rank > 5) {
    return false;
  }
  int64_t stride = 1;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t d = i == 0 ? 1 : (i == rank - 1 ? 0 : rank - i);  // channels, columns, rows …, batch
    if (tensor.size(d) != 1 && tensor.stride(d) != stride) {
      return tensor.numel() == 0;
    }
    stride *= tensor.size(d);
  }
  return true;
}

Error unsupported_dtype(const char* op, ScalarType dtype) {
  ET_LOG_ERROR("%s: no kernel for element type %s in this build", op, to_string(dtype));
  return Error::InvalidType;
}

}  // namespace et::kernels::portable
