// aten::split_with_sizes: parts of given sizes.
#include "kernels/cortex_m/move.h"

namespace et::kernels::cortex_m {

bool fits_split_with_sizes_copy(Arguments args) { return fits_parts(*args[0], *args[3]); }

Error split_with_sizes_copy_out(KernelContext& context, const Tensor& self, IntArrayRef split_sizes, int64_t dim,
                                TensorList out) {
  constexpr const char* kOp = "aten::split_with_sizes";
  ET_RETURN_IF_ERROR(portable::normalize_dim(kOp, dim, self.dim(), &dim));
  ET_CHECK_OR_RETURN(out.size() == split_sizes.size(), InvalidArgument, "%s: %zu outputs for %zu parts", kOp,
                     out.size(), split_sizes.size());
  int64_t left = self.size(dim);
  for (const int64_t size : split_sizes) {
    ET_CHECK_OR_RETURN(size >= 0 && size <= left, InvalidArgument,
                       "%s: %s has a negative size, or exceeds %" PRId64 ", the size of dim %" PRId64, kOp,
                       ShapeText(split_sizes).text, self.size(dim), dim);
    left -= size;
  }
  ET_CHECK_OR_RETURN(left == 0, InvalidArgument, "%s: %s does not add up to %" PRId64 ", the size of dim %" PRId64, kOp,
                     ShapeText(split_sizes).text, self.size(dim), dim);
  int64_t start = 0;
  for (size_t i = 0; i < out.size(); start += split_sizes[i++]) {
    ET_RETURN_IF_ERROR(move_part(context, self, dim, start, split_sizes[i], out[i]));
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
