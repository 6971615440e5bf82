#include "runtime/tensor.h"

#include "base/checked_math.h"
#include "runtime/features.h"

namespace et::runtime {
inline namespace lean {

TensorImpl::TensorImpl(ScalarType dtype, size_t dim, int64_t* sizes, int64_t* strides, const uint8_t* dim_order,
                       void* data, size_t capacity, TensorShapeDynamism dynamism)
    : data_(data),
      sizes_(sizes),
      strides_(strides),
      dim_order_(dim_order),
      numel_(1),
      capacity_(capacity),
      dim_(static_cast<uint8_t>(dim)),
      dtype_(dtype),
      dynamism_(dynamism) {
  for (size_t d = 0; d < dim; ++d) {
    numel_ *= sizes[d];
  }
  strides_from_dim_order({sizes, dim}, {dim_order, dim}, strides);
}

Error TensorImpl::resize(IntArrayRef sizes) {
  if (equal(sizes, this->sizes())) {
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN(sizes.size() == dim_, NotSupported, "resize to rank %zu, the tensor has rank %u", sizes.size(),
                     static_cast<unsigned>(dim_));
  ET_CHECK_OR_RETURN(has(Feature::kDynamicShapes) && dynamism_ != TensorShapeDynamism::kStatic, NotSupported,
                     "resize of a tensor whose sizes are static");
  int64_t numel = 1;
  int64_t extent = static_cast<int64_t>(element_size(dtype_));  // bytes, dimensions of size 0 counted as 1
  for (size_t d = 0; d < dim_; ++d) {
    ET_CHECK_OR_RETURN(sizes[d] >= 0, InvalidArgument, "resize: size %" PRId64 " of dimension %zu is negative",
                       sizes[d], d);
    const bool overflows = mul_overflow(extent, sizes[d] > 0 ? sizes[d] : 1, &extent);
    ET_CHECK_OR_RETURN(!overflows, OutOfResources, "resize: the number of bytes does not fit 63 bits");
    numel *= sizes[d];
  }
  const uint64_t nbytes = static_cast<uint64_t>(numel) * element_size(dtype_);
  ET_CHECK_OR_RETURN(nbytes <= capacity_, OutOfResources,
                     "resize needs %" PRIu64 " bytes, memory for %zu is set aside; a bound given at export is exceeded",
                     nbytes, capacity_);
  for (size_t d = 0; d < dim_; ++d) {
    sizes_[d] = sizes[d];
  }
  numel_ = numel;
  strides_from_dim_order(sizes, dim_order(), strides_);
  return Error::Ok;
}

bool is_contiguous_dim_order(Span<const uint8_t> dim_order) {
  for (size_t d = 0; d < dim_order.size(); ++d) {
    if (dim_order[d] != d) {
      return false;
    }
  }
  return true;
}

bool is_channels_last_dim_order(Span<const uint8_t> dim_order) {
  const size_t rank = dim_order.size();
  if (rank < 3 || rank > 5 || dim_order[0] != 0 || dim_order[rank - 1] != 1) {
    return false;
  }
  for (size_t d = 1; d + 1 < rank; ++d) {
    if (dim_order[d] != d + 1) {
      return false;
    }
  }
  return true;
}

void strides_from_dim_order(IntArrayRef sizes, Span<const uint8_t> dim_order, int64_t* strides) {
  int64_t stride = 1;
  for (size_t i = dim_order.size(); i-- > 0;) {
    const size_t d = dim_order[i];
    strides[d] = stride;
    stride *= sizes[d] > 0 ? sizes[d] : 1;  // as ATen: a dimension of size 0 counts as 1
  }
}

}  // namespace lean
}  // namespace et::runtime
