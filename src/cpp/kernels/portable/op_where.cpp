#include "kernels/portable/op_where.h"

#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {

Error where_self_out(KernelContext& context, const Tensor& condition, const Tensor& self, const Tensor& other,
                     Tensor& out) {
  ET_CHECK_OR_RETURN(condition.scalar_type() == ScalarType::Bool || condition.scalar_type() == ScalarType::Byte,
                     InvalidType, "aten::where: condition is %s, must be torch.bool",
                     to_string(condition.scalar_type()));
  const ScalarType common = result_type({&self, &other});
  ET_RETURN_IF_ERROR(check_can_cast("aten::where", common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(
        context, "aten::where", common, out, [](C c, C a, C b) { return c != C(0) ? a : b; }, condition, self, other);
  });
}

Error masked_fill_scalar_out(KernelContext& context, const Tensor& self, const Tensor& mask, const Scalar& value,
                             Tensor& out) {
  ET_CHECK_OR_RETURN(mask.scalar_type() == ScalarType::Bool, InvalidType,
                     "aten::masked_fill: mask is %s, must be torch.bool", to_string(mask.scalar_type()));
  const ScalarType common = self.scalar_type();
  ET_RETURN_IF_ERROR(check_can_cast("aten::masked_fill", common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C number = scalar_to<C>(value);
    return elementwise<C>(
        context, "aten::masked_fill", common, out, [number](C a, C m) { return m != C(0) ? number : a; }, self, mask);
  });
}

Error masked_fill_tensor_out(KernelContext& context, const Tensor& self, const Tensor& mask, const Tensor& value,
                             Tensor& out) {
  ET_CHECK_OR_RETURN(mask.scalar_type() == ScalarType::Bool, InvalidType,
                     "aten::masked_fill: mask is %s, must be torch.bool", to_string(mask.scalar_type()));
  ET_RETURN_IF_ERROR(check_rank("aten::masked_fill", "value", value, 0, 0));
  const ScalarType common = self.scalar_type();
  ET_RETURN_IF_ERROR(check_can_cast("aten::masked_fill", common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(
        context, "aten::masked_fill", common, out, [](C a, C m, C v) { return m != C(0) ? v : a; }, self, mask, value);
  });
}

}  // namespace et::kernels::portable
