#include "kernels/optimized/broadcast.h"

#include "kernels/portable/shape.h"

namespace et::kernels::optimized {

using portable::Sizes;

void BroadcastPlan::block_offsets(size_t block, int64_t* offsets) const {
  for (size_t k = 0; k < operands; ++k) {
    offsets[k] = 0;
  }
  for (size_t d = outer_rank; d-- > 0;) {
    const auto index = static_cast<int64_t>(block % outer_size[d]);
    block /= outer_size[d];
    for (size_t k = 0; k < operands; ++k) {
      offsets[k] += index * outer_stride[k][d];
    }
  }
}

Error plan_broadcast(KernelContext& context, const char* op, Span<const Tensor* const> operands, const Tensor& out,
                     BroadcastPlan* plan) {
  Sizes sizes(operands[0]->sizes());
  for (size_t k = 1; k < operands.size(); ++k) {
    Sizes together;
    ET_RETURN_IF_ERROR(portable::broadcast_sizes(op, sizes, operands[k]->sizes(), &together));
    sizes = together;
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));

  // The loops in the output's memory order, merged from the inside: loop 0 is the innermost here.
  plan->operands = operands.size();
  size_t loops = 0;
  size_t size[runtime::kMaxRank];
  int64_t stride[BroadcastPlan::kMaxOperands][runtime::kMaxRank];
  const auto order = runtime::dim_order(out);
  for (size_t i = order.size(); i-- > 0;) {
    const auto dim = static_cast<int64_t>(order[i]);
    const auto extent = static_cast<size_t>(sizes[dim]);
    if (extent == 1) {
      continue;
    }
    int64_t step[BroadcastPlan::kMaxOperands];
    bool merges = loops > 0;
    for (size_t k = 0; k < operands.size(); ++k) {
      const Tensor& tensor = *operands[k];
      const int64_t own = dim - (out.dim() - tensor.dim());
      step[k] = own < 0 || tensor.size(own) == 1 ? 0 : tensor.stride(own);
      merges = merges && step[k] == stride[k][loops - 1] * static_cast<int64_t>(size[loops - 1]);
    }
    if (merges) {
      size[loops - 1] *= extent;
      continue;
    }
    size[loops] = extent;
    for (size_t k = 0; k < operands.size(); ++k) {
      stride[k][loops] = step[k];
    }
    ++loops;
  }

  plan->columns = loops > 0 ? size[0] : 1;
  plan->rows = loops > 1 ? size[1] : 1;
  plan->outer_rank = loops > 2 ? loops - 2 : 0;
  plan->blocks = 1;
  for (size_t k = 0; k < operands.size(); ++k) {
    plan->column_stride[k] = loops > 0 ? stride[k][0] : 0;
    plan->row_stride[k] = loops > 1 ? stride[k][1] : 0;
  }
  for (size_t d = 0; d < plan->outer_rank; ++d) {
    const size_t loop = loops - 1 - d;
    plan->outer_size[d] = size[loop];
    plan->blocks *= size[loop];
    for (size_t k = 0; k < operands.size(); ++k) {
      plan->outer_stride[k][d] = stride[k][loop];
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::optimized
