#include "kernels/optimized/reduce/reduction_shape.h"

#include "kernels/portable/shape.h"

namespace et::kernels::optimized::reduce {
namespace {

/// Marks the dimensions of a dim list (none given: all). False for a dim out of range, and for more than a tensor has.
bool mark_dims(int64_t rank, IntArrayRef dims, bool* reduced) {
  if (dims.size() > static_cast<size_t>(rank)) {
    return false;
  }
  for (int64_t d = 0; d < rank; ++d) {
    reduced[d] = dims.empty();
  }
  for (const int64_t dim : dims) {
    if (dim < -rank || dim >= rank) {
      return false;
    }
    reduced[dim < 0 ? dim + rank : dim] = true;
  }
  return true;
}

}  // namespace

bool fits_reduction_layout(const EValue& self, IntArrayRef dims, bool keepdim, const EValue& out) {
  const auto order = runtime::dim_order(self.to_tensor());
  const auto out_order = runtime::dim_order(out.to_tensor());
  bool reduced[runtime::kMaxRank];
  if (!mark_dims(static_cast<int64_t>(order.size()), dims, reduced)) {
    return false;
  }
  uint8_t kept_index[runtime::kMaxRank];  // dimension of `out` for each one that stays
  uint8_t next = 0;
  for (size_t d = 0; d < order.size(); ++d) {
    kept_index[d] = keepdim ? static_cast<uint8_t>(d) : next;
    next = static_cast<uint8_t>(next + (reduced[d] ? 0 : 1));
  }
  int changes = 0;
  size_t place = 0;  // in out_order
  for (size_t i = 0; i < order.size(); ++i) {
    changes += i > 0 && reduced[order[i]] != reduced[order[i - 1]] ? 1 : 0;
    if (reduced[order[i]]) {
      continue;
    }
    while (keepdim && place < out_order.size() && reduced[out_order[place]]) {
      ++place;
    }
    if (place >= out_order.size() || out_order[place] != kept_index[order[i]]) {
      return false;
    }
    ++place;
  }
  return changes <= (order.empty() || !reduced[order[0]] ? 2 : 1);
}

bool reduces_rows(const Tensor& self, IntArrayRef dims) {
  bool reduced[runtime::kMaxRank];
  return self.dim() > 0 && mark_dims(self.dim(), dims, reduced) && reduced[runtime::dim_order(self).back()];
}

Error shape_reduction(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
                      const Tensor& out, ReductionShape* shape) {
  bool reduced[runtime::kMaxRank];
  ET_CHECK_OR_RETURN(mark_dims(self.dim(), dims, reduced), InvalidArgument,
                     "%s: a dim is out of range for rank %" PRId64, op, self.dim());
  portable::Sizes sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (!reduced[d]) {
      sizes.push_back(self.size(d));
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  *shape = {};
  bool seen = false;
  for (const uint8_t d : runtime::dim_order(self)) {
    const auto extent = static_cast<size_t>(self.size(d));
    seen = seen || reduced[d];
    (reduced[d] ? shape->length : seen ? shape->inner : shape->outer) *= extent;
  }
  return Error::Ok;
}

}  // namespace et::kernels::optimized::reduce
