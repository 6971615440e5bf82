#include "extension/tensor/tensor_impl.h"

#include <algorithm>
#include <numeric>

namespace et::extension {

TensorImpl::TensorImpl(ScalarType dtype, int64_t dim, SizesType* sizes, void* data, DimOrderType* dim_order,
                       StridesType*, TensorShapeDynamism dynamism) {
  if (dim < 0 || dim > static_cast<int64_t>(runtime::kMaxRank)) {
    ET_LOG_ERROR("a tensor of %lld dimensions cannot be described, there are at most %zu", static_cast<long long>(dim),
                 runtime::kMaxRank);
    return;
  }
  const auto rank = static_cast<size_t>(dim);
  if (dim_order != nullptr) {
    std::copy(dim_order, dim_order + rank, dim_order_);
  } else {
    std::iota(dim_order_, dim_order_ + rank, DimOrderType{0});
  }
  static_cast<runtime::TensorImpl&>(*this) =
      runtime::TensorImpl(dtype, rank, sizes, strides_, dim_order_, data, 0, dynamism);
  set_data(data, nbytes());
}

}  // namespace et::extension
