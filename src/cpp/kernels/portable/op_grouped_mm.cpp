// Matrix products of groups: one for each expert of a mixture. Sums in float for the 16-bit types.
#include "kernels/portable/op_grouped_mm.h"

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/dot.h"
#include "kernels/portable/grouped_product.h"

namespace et::kernels::portable {
namespace {

template <typename T>
void multiply_pair(const MatrixPair& pair) {
  using A = Accumulator<T>;
  const auto* const left = reinterpret_cast<const T*>(pair.left.data);
  const auto* const right = reinterpret_cast<const T*>(pair.right.data);
  auto* const out = reinterpret_cast<T*>(pair.out.data);
  for (int64_t i = 0; i < pair.out.rows; ++i) {
    for (int64_t j = 0; j < pair.out.columns; ++j) {
      out[i * pair.out.row + j * pair.out.column] =
          convert<T>(dot<A>(left + i * pair.left.row, pair.left.column, right + j * pair.right.column, pair.right.row,
                            pair.left.columns));
    }
  }
}

Error multiply_groups(KernelContext& context, const char* op, const Tensor& self, const Tensor& mat2,
                      const OptionalTensor& offs, Tensor& out) {
  ET_TRY(const GroupedProduct grouped, GroupedProduct::of(context, op, self, mat2, offs, out));
  return dispatch<FloatTypes>(out.scalar_type(), op, [&](auto tag) {
    for (int64_t g = 0; g < grouped.count(); ++g) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", op);
      multiply_pair<typename decltype(tag)::type>(grouped[g]);
    }
    return Error::Ok;
  });
}

}  // namespace

Error grouped_mm_out(KernelContext& context, const Tensor& self, const Tensor& mat2, const OptionalTensor& offs,
                     const OptionalTensor& bias, Tensor& out) {
  ET_CHECK_OR_RETURN(!bias, NotSupported, "aten::_grouped_mm: ATen defines no bias yet");
  return multiply_groups(context, "aten::_grouped_mm", self, mat2, offs, out);
}

Error grouped_mm_fallback_out(KernelContext& context, const Tensor& input, const Tensor& weight, const Tensor& offs,
                              Tensor& out) {
  return multiply_groups(context, "transformers::grouped_mm_fallback", input, weight, offs, out);
}

}  // namespace et::kernels::portable
