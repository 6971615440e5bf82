#include "kernels/portable/op_add_sub.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/complex_elementwise.h"
#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {
namespace {

Error check_alpha(const char* op, ScalarType common, const Scalar& alpha) {
  ET_CHECK_OR_RETURN(!alpha.is_floating_point() || !is_integral(common, true), InvalidArgument,
                     "%s: alpha is floating, the operands are %s", op, to_string(common));
  return Error::Ok;
}

// sign: +1 for add, -1 for sub.
Error add_scaled(KernelContext& context, const char* op, const Tensor& self, const Tensor& other, const Scalar& alpha,
                 int64_t sign, Tensor& out) {
  const ScalarType common = result_type({&self, &other});
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  ET_RETURN_IF_ERROR(check_alpha(op, common, alpha));
  if (is_complex(common)) {
    const double scale = static_cast<double>(sign) * alpha.to<double>();
    return complex_elementwise(context, op, out, [scale](Complex a, Complex b) { return a + scale * b; }, self, other);
  }
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    // As a bool, alpha and the sign say whether `other` counts.
    const C scale = common == ScalarType::Bool ? static_cast<C>(scalar_to<bool>(alpha))
                                               : wrapping_mul(static_cast<C>(sign), scalar_to<C>(alpha));
    if (scale == C(1)) {
      return elementwise<C>(context, op, common, out, [](C a, C b) { return wrapping_add(a, b); }, self, other);
    }
    return elementwise<C>(
        context, op, common, out, [scale](C a, C b) { return wrapping_add(a, wrapping_mul(scale, b)); }, self, other);
  });
}

// out = self * self_sign + number * other_sign * alpha
Error add_scaled_number(KernelContext& context, const char* op, const Tensor& self, int64_t self_sign,
                        const Scalar& other, int64_t other_sign, const Scalar& self_alpha, const Scalar& other_alpha,
                        Tensor& out) {
  const ScalarType common = result_type(self, other);
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  ET_RETURN_IF_ERROR(check_alpha(op, common, self_alpha));
  ET_RETURN_IF_ERROR(check_alpha(op, common, other_alpha));
  if (is_complex(common)) {
    const double scale = static_cast<double>(self_sign) * self_alpha.to<double>();
    const double shift = other.to<double>() * static_cast<double>(other_sign) * other_alpha.to<double>();
    return complex_elementwise(context, op, out, [=](Complex a) { return a * scale + shift; }, self);
  }
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C scale = wrapping_mul(static_cast<C>(self_sign), scalar_to<C>(self_alpha));
    const C shift = wrapping_mul(scalar_operand<C>(common, other),
                                 wrapping_mul(static_cast<C>(other_sign), scalar_to<C>(other_alpha)));
    return elementwise<C>(
        context, op, common, out, [=](C a) { return wrapping_add(wrapping_mul(a, scale), shift); }, self);
  });
}

}  // namespace

Error add_out(KernelContext& context, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  return add_scaled(context, "aten::add", self, other, alpha, 1, out);
}

Error sub_out(KernelContext& context, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  return add_scaled(context, "aten::sub", self, other, alpha, -1, out);
}

Error rsub_tensor_out(KernelContext& context, const Tensor& self, const Tensor& other, const Scalar& alpha,
                      Tensor& out) {
  return add_scaled(context, "aten::rsub", other, self, alpha, -1, out);
}

Error add_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, const Scalar& alpha,
                     Tensor& out) {
  return add_scaled_number(context, "aten::add", self, 1, other, 1, Scalar(int64_t{1}), alpha, out);
}

Error sub_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, const Scalar& alpha,
                     Tensor& out) {
  return add_scaled_number(context, "aten::sub", self, 1, other, -1, Scalar(int64_t{1}), alpha, out);
}

Error rsub_scalar_out(KernelContext& context, const Tensor& self, const Scalar& other, const Scalar& alpha,
                      Tensor& out) {
  return add_scaled_number(context, "aten::rsub", self, -1, other, 1, alpha, Scalar(int64_t{1}), out);
}

}  // namespace et::kernels::portable
