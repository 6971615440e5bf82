#include "kernels/portable/index_checks.h"

#include "kernels/portable/convert.h"

namespace et::kernels::portable {

Error check_indices(const char* op, const Tensor& indices, int64_t size, int64_t low) {
  ET_CHECK_OR_RETURN(indices.scalar_type() == ScalarType::Long || indices.scalar_type() == ScalarType::Int, InvalidType,
                     "%s: indices are %s, must be i64 or i32", op, to_string(indices.scalar_type()));
  for (int64_t i = 0; i < indices.numel(); ++i) {  // memory order: positions are those of a row-major tensor
    const int64_t index = index_at(indices, i);
    ET_CHECK_OR_RETURN(index >= low && index < size, InvalidArgument,
                       "%s: index %" PRId64 " at position %" PRId64 " is out of range: it must lie in [%" PRId64
                       ", %" PRId64 ")",
                       op, index, i, low, size);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
