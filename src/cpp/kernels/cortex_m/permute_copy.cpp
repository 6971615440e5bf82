#include "kernels/cortex_m/move.h"

namespace et::kernels::cortex_m {

bool fits_permute_copy(Arguments args) { return fits_move(*args[0], *args[2]); }

Error permute_copy_out(KernelContext& context, const Tensor& self, IntArrayRef dims, Tensor& out) {
  constexpr const char* kOp = "aten::permute";
  portable::Sizes sizes(self.sizes()), strides(self.strides());
  uint32_t seen = 0;
  for (size_t i = 0; i < dims.size() && i < sizes.size(); ++i) {
    int64_t dim;
    ET_RETURN_IF_ERROR(portable::normalize_dim(kOp, dims[i], self.dim(), &dim));
    seen |= 1u << dim;
    sizes[static_cast<int64_t>(i)] = self.size(dim);
    strides[static_cast<int64_t>(i)] = self.stride(dim);
  }
  ET_CHECK_OR_RETURN(dims.size() == sizes.size() && seen + 1 == 1u << dims.size(), InvalidArgument,
                     "%s: %s does not name each dimension of %s once", kOp, ShapeText(dims).text,
                     ShapeText(self.sizes()).text);
  return move_view(context, self, self.const_data_ptr(), sizes, strides, out);
}

}  // namespace et::kernels::cortex_m
