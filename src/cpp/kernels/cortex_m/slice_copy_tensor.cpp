#include "kernels/cortex_m/move.h"
#include "kernels/portable/strided_copy.h"

namespace et::kernels::cortex_m {

bool fits_slice_copy_tensor(Arguments args) { return fits_move(*args[0], *args[5]); }

Error slice_copy_tensor_out(KernelContext& context, const Tensor& self, int64_t dim, std::optional<int64_t> start,
                            std::optional<int64_t> end, int64_t step, Tensor& out) {
  int64_t first, length;
  ET_RETURN_IF_ERROR(portable::normalize_slice("aten::slice", self, &dim, start, end, step, &first, &length));
  portable::Sizes sizes(self.sizes());
  sizes[dim] = length;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), sizes.size()}));
  Move move(self);
  for (int64_t d = 0; d < self.dim(); ++d) {
    const bool steps = d == dim && length > 1;  // a step beyond the end need not fit 32 bits
    move.add(sizes[d], self.stride(d) * (steps ? step : 1), out.stride(d));
  }
  move.run(length > 0 ? place(self, dim, first) : nullptr, out.mutable_data_ptr());
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
