#include <utility>

#include "kernels/cortex_m/move.h"

namespace et::kernels::cortex_m {

bool fits_transpose_copy_int(Arguments args) { return fits_move(*args[0], *args[3]); }

Error transpose_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim0, int64_t dim1, Tensor& out) {
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::transpose", dim0, self.dim(), &dim0));
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::transpose", dim1, self.dim(), &dim1));
  portable::Sizes sizes(self.sizes()), strides(self.strides());
  if (self.dim() > 0) {
    std::swap(sizes[dim0], sizes[dim1]);
    std::swap(strides[dim0], strides[dim1]);
  }
  return move_view(context, self, self.const_data_ptr(), sizes, strides, out);
}

}  // namespace et::kernels::cortex_m
