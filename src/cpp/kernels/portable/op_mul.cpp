#include "kernels/portable/op_mul.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/complex_elementwise.h"
#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {

Error mul_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  const ScalarType common = result_type({&self, &other});
  ET_RETURN_IF_ERROR(check_can_cast("aten::mul", common, out.scalar_type()));
  if (is_complex(common)) {
    return complex_elementwise(context, "aten::mul", out, [](Complex a, Complex b) { return a * b; }, self, other);
  }
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C, C, LastNumber::kExact>(
        context, "aten::mul", common, out, [](C a, C b) { return wrapping_mul(a, b); }, self, other);
  });
}

Error mul_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, Tensor& out) {
  const ScalarType common = result_type(self, other);
  ET_RETURN_IF_ERROR(check_can_cast("aten::mul", common, out.scalar_type()));
  if (is_complex(common)) {
    const double factor = other.to<double>();
    return complex_elementwise(context, "aten::mul", out, [factor](Complex a) { return a * factor; }, self);
  }
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C factor = exact_operand<C>(common, other);
    return elementwise<C>(context, "aten::mul", common, out, [factor](C a) { return wrapping_mul(a, factor); }, self);
  });
}

}  // namespace et::kernels::portable
