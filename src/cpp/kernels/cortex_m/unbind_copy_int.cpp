// aten::unbind: what each index of a dimension selects.
#include "kernels/cortex_m/move.h"
#include "kernels/portable/split_arguments.h"

namespace et::kernels::cortex_m {

bool fits_unbind_copy_int(Arguments args) { return fits_parts(*args[0], *args[2]); }

Error unbind_copy_int_out(KernelContext& context, const Tensor& self, int64_t dim, TensorList out) {
  constexpr const char* kOp = "aten::unbind";
  ET_RETURN_IF_ERROR(portable::normalize_dim(kOp, dim, self.dim(), &dim));
  ET_RETURN_IF_ERROR(portable::check_part_count(kOp, out.size(), static_cast<size_t>(self.size(dim))));
  portable::Sizes sizes(self.sizes()), strides(self.strides());
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  for (size_t i = 0; i < out.size(); ++i) {
    const void* const first = place(self, dim, static_cast<int64_t>(i));
    ET_RETURN_IF_ERROR(move_view(context, self, first, sizes, strides, out[i]));
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
