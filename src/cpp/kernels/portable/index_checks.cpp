#include "kernels/portable/index_checks.h"

#include <limits>

#include "kernels/portable/convert.h"

namespace et::kernels::portable {
namespace {

// Without a jump in the loop, so that the compiler makes vectors of it.
template <typename I>
bool all_within(const I* indices, int64_t n, int64_t low, int64_t size) {
  I least = std::numeric_limits<I>::max();
  I most = std::numeric_limits<I>::min();
  for (int64_t i = 0; i < n; ++i) {
    least = indices[i] < least ? indices[i] : least;
    most = indices[i] > most ? indices[i] : most;
  }
  return n == 0 || (least >= low && most < size);
}

}  // namespace

Error check_indices(const char* op, const Tensor& indices, int64_t size, int64_t low) {
  ET_CHECK_OR_RETURN(indices.scalar_type() == ScalarType::Long || indices.scalar_type() == ScalarType::Int, InvalidType,
                     "%s: indices are %s, must be torch.int64 or torch.int32", op, to_string(indices.scalar_type()));
  const auto n = indices.numel();
  if (indices.scalar_type() == ScalarType::Long ? all_within(indices.const_data_ptr<int64_t>(), n, low, size)
                                                : all_within(indices.const_data_ptr<int32_t>(), n, low, size)) {
    return Error::Ok;
  }
  for (int64_t i = 0; i < n; ++i) {  // memory order: positions are those of a row-major tensor
    const int64_t index = index_at(indices, i);
    ET_CHECK_OR_RETURN(index >= low && index < size, InvalidArgument,
                       "%s: index %" PRId64 " at position %" PRId64 " is out of range: it must lie in [%" PRId64
                       ", %" PRId64 ")",
                       op, index, i, low, size);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
