// aten::cat of tensors of one type and rank.
#include <algorithm>

#include "kernels/cortex_m/move.h"

namespace et::kernels::cortex_m {

bool fits_cat(Arguments args) {
  const EValue& out = *args[2];
  if (!args[0]->is_tensor_list() || !out.is_tensor()) {
    return false;
  }
  const auto& tensors = args[0]->tensor_list_items();
  return tensors.size > 0 && out.to_tensor().dim() > 0 &&
         std::all_of(tensors.items, tensors.items + tensors.size, [&](const EValue* tensor) {
           return fits_move(*tensor, out) && tensor->to_tensor().dim() == out.to_tensor().dim();
         });
}

Error cat_out(KernelContext& context, TensorList tensors, int64_t dim, Tensor& out) {
  constexpr const char* kOp = "aten::cat";
  const Tensor& first = tensors[0];
  ET_RETURN_IF_ERROR(portable::normalize_dim(kOp, dim, first.dim(), &dim));
  portable::Sizes sizes(first.sizes());
  sizes[dim] = 0;
  for (const Tensor& tensor : tensors) {
    for (int64_t d = 0; d < first.dim(); ++d) {
      ET_CHECK_OR_RETURN(d == dim || tensor.size(d) == first.size(d), InvalidArgument,
                         "%s: shape %s does not go with %s along dim %" PRId64, kOp, ShapeText(tensor.sizes()).text,
                         ShapeText(first.sizes()).text, dim);
    }
    sizes[dim] += tensor.size(dim);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes.data(), sizes.size()}));
  int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    Move move(tensor);
    move.add_all(tensor.sizes(), tensor.strides(), out.strides());
    move.run(tensor.const_data_ptr(), place(out, dim, start));
    start += tensor.size(dim);
  }
  return Error::Ok;
}

}  // namespace et::kernels::cortex_m
