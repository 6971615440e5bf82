#include "kernels/optimized/vec/broadcast.h"

#include "kernels/portable/shape.h"

namespace et::kernels::optimized {

using portable::Sizes;

Error broadcast_loops(KernelContext& context, const char* op, Span<const Tensor* const> operands, const Tensor& out,
                      BroadcastLoops* loops) {
  Sizes sizes;
  for (const Tensor* operand : operands) {
    if (operand != nullptr) {
      Sizes together;
      ET_RETURN_IF_ERROR(portable::broadcast_sizes(op, sizes, operand->sizes(), &together));
      sizes = together;
    }
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));

  loops->count = 0;
  const auto order = runtime::dim_order(out);
  for (size_t i = order.size(); i-- > 0;) {
    const auto dim = static_cast<int64_t>(order[i]);
    const auto extent = static_cast<size_t>(sizes[dim]);
    if (extent == 1) {
      continue;
    }
    const size_t last = loops->count - 1;
    int64_t step[kMaxOperands] = {};
    bool merges = loops->count > 0;
    for (size_t k = 0; k < operands.size(); ++k) {
      if (const Tensor* const tensor = operands[k]) {
        const int64_t own = dim - (out.dim() - tensor->dim());
        step[k] = own < 0 || tensor->size(own) == 1 ? 0 : tensor->stride(own);
      }
      merges = merges && step[k] == loops->stride[k][last] * static_cast<int64_t>(loops->size[last]);
    }
    if (merges) {
      loops->size[last] *= extent;
      continue;
    }
    loops->size[loops->count] = extent;
    for (size_t k = 0; k < operands.size(); ++k) {
      loops->stride[k][loops->count] = step[k];
    }
    ++loops->count;
  }
  return Error::Ok;
}

}  // namespace et::kernels::optimized
