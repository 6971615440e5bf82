#include "kernels/portable/search_plan.h"

namespace et::kernels::portable {

Result<SearchPlan> plan_search(KernelContext& context, const char* op, const Tensor& sorted, const Tensor& values,
                               bool out_int32, const Tensor& out) {
  const ScalarType wanted = out_int32 ? ScalarType::Int : ScalarType::Long;
  ET_CHECK_OR_RETURN(out.scalar_type() == wanted, InvalidType, "%s: out is %s, must be %s", op,
                     to_string(out.scalar_type()), to_string(wanted));
  ET_RETURN_IF_ERROR(check_rank(op, "the sorted sequence", sorted, 1, kMaxRank));
  bool fits = sorted.dim() == 1 || sorted.dim() == values.dim();
  for (int64_t d = 0; fits && sorted.dim() > 1 && d + 1 < sorted.dim(); ++d) {
    fits = sorted.size(d) == values.size(d);
  }
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: sequence %s does not go with values %s", op,
                     ShapeText(sorted.sizes()).text, ShapeText(values.sizes()).text);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, values.sizes()));
  ET_RETURN_IF_ERROR(check_row_major(op, {&sorted, &values, &out}));
  return SearchPlan{sorted.size(-1), sorted.dim() == 1 ? values.numel() : values.size(-1)};
}

}  // namespace et::kernels::portable
