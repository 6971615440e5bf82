// aten::split_with_sizes: parts of given sizes.
#include "kernels/cortex_m/move.h"
#include "kernels/portable/split_arguments.h"

namespace et::kernels::cortex_m {

bool fits_split_with_sizes_copy(Arguments args) { return fits_parts(*args[0], *args[3]); }

Error split_with_sizes_copy_out(KernelContext& context, const Tensor& self, IntArrayRef split_sizes, int64_t dim,
                                TensorList out) {
  constexpr const char* kOp = "aten::split_with_sizes";
  ET_RETURN_IF_ERROR(portable::normalize_dim(kOp, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(portable::check_part_count(kOp, out.size(), split_sizes.size()));
  ET_RETURN_IF_ERROR(portable::check_split_sizes(kOp, self.size(dim), split_sizes, dim));
  int64_t start = 0;
  for (size_t i = 0; i < out.size(); start += split_sizes[i++]) {
    ET_RETURN_IF_ERROR(move_part(context, self, dim, start, split_sizes[i], out[i]));
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
