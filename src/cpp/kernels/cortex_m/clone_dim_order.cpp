// dim_order_ops::_clone_dim_order: the same elements in another order in memory.
#include "kernels/cortex_m/move.h"

namespace et::kernels::cortex_m {

bool fits_clone_dim_order(Arguments args) { return fits_move(*args[0], *args[3]); }

Error clone_dim_order_out(KernelContext& context, const Tensor& self, bool, std::optional<IntArrayRef>, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  Move move(self);
  move.add_all(out.sizes(), self.strides(), out.strides());
  move.run(self.const_data_ptr(), out.mutable_data_ptr());
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
