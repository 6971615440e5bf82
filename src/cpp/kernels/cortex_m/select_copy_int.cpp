#include "kernels/cortex_m/move.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::cortex_m {

bool fits_select_copy_int(Arguments args) { return fits_move(*args[0], *args[3]) && args[0]->to_tensor().dim() > 0; }

Error select_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim, int64_t index, Tensor& out) {
  ET_RETURN_IF_ERROR(portable::normalize_dim("aten::select", dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(portable::normalize_index("aten::select", index, self, dim, &index));
  portable::Sizes sizes(self.sizes()), strides(self.strides());
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  return move_view(context, self, place(self, dim, index), sizes, strides, out);
}

}  // namespace et::kernels::cortex_m
