#include "ir/type.h"

#include <algorithm>

#include "base/checked_math.h"

namespace et::ir {

TensorType TensorType::contiguous(ScalarType dtype, std::vector<Dim> dims) {
  TensorType type;
  type.dtype = dtype;
  type.dims = std::move(dims);
  type.dim_order.resize(type.dims.size());
  for (size_t i = 0; i < type.dim_order.size(); ++i) {
    type.dim_order[i] = static_cast<uint8_t>(i);
  }
  return type;
}

bool TensorType::is_static() const {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_static(); });
}

bool TensorType::is_bounded() const {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.is_bounded(); });
}

bool TensorType::is_row_major() const {
  for (size_t i = 0; i < dim_order.size(); ++i) {
    if (dim_order[i] != i) {
      return false;
    }
  }
  return true;
}

int64_t TensorType::max_numel() const {
  int64_t numel = 1;
  bool overflow = false;
  for (const Dim& dim : dims) {
    if (dim.max == 0) {
      return 0;
    }
    overflow = overflow || !dim.is_bounded() || mul_overflow(numel, dim.max, &numel);
  }
  return overflow ? kUnbounded : numel;
}

int64_t TensorType::max_nbytes() const {
  const int64_t numel = max_numel();
  int64_t nbytes = 0;
  if (numel == kUnbounded || mul_overflow(numel, static_cast<int64_t>(element_size(dtype)), &nbytes)) {
    return kUnbounded;
  }
  return nbytes;
}

int64_t TensorType::numel() const { return max_numel(); }

}  // namespace et::ir
