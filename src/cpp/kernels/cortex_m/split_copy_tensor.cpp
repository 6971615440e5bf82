// aten::split: parts of one size, of which the last may be smaller.
#include <algorithm>

#include "kernels/cortex_m/move.h"
#include "kernels/portable/split_arguments.h"

namespace et::kernels::cortex_m {

bool fits_split_copy_tensor(Arguments args) { return fits_parts(*args[0], *args[3]); }

Error split_copy_tensor_out(KernelContext& context, const Tensor& self, int64_t split_size, int64_t dim,
                            TensorList out) {
  constexpr const char* kOp = "aten::split";
  ET_RETURN_IF_ERROR(portable::normalize_dim(kOp, dim, self.dim(), &dim));
  const int64_t size = self.size(dim);
  ET_RETURN_IF_ERROR(portable::check_split(kOp, size, split_size, dim, out.size()));
  int64_t start = 0;
  for (const Tensor& part : out) {
    const int64_t length = std::min(size - start, split_size);
    ET_RETURN_IF_ERROR(move_part(context, self, dim, start, length, part));
    start += length;
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
