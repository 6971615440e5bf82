// aten::split: parts of one size, of which the last may be smaller.
#include <algorithm>

#include "kernels/cortex_m/move.h"

namespace et::kernels::cortex_m {

bool fits_split_copy_tensor(Arguments args) { return fits_parts(*args[0], *args[3]); }

Error split_copy_tensor_out(KernelContext& context, const Tensor& self, int64_t split_size, int64_t dim,
                            TensorList out) {
  constexpr const char* kOp = "aten::split";
  ET_RETURN_IF_ERROR(portable::normalize_dim(kOp, dim, self.dim(), &dim));
  const int64_t size = self.size(dim);
  ET_CHECK_OR_RETURN(split_size > 0 || (split_size == 0 && size == 0), InvalidArgument,
                     "%s: split_size %" PRId64 " cannot cut dim %" PRId64 " of size %" PRId64, kOp, split_size, dim,
                     size);
  const auto count = static_cast<size_t>(size == 0 ? 1 : (size - 1) / split_size + 1);
  ET_CHECK_OR_RETURN(out.size() == count, InvalidArgument, "%s: %zu outputs for %zu parts", kOp, out.size(), count);
  int64_t start = 0;
  for (const Tensor& part : out) {
    const int64_t length = std::min(size - start, split_size);
    ET_RETURN_IF_ERROR(move_part(context, self, dim, start, length, part));
    start += length;
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
