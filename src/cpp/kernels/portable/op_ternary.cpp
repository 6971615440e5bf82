// Pointwise operators of three operands.
#include "kernels/portable/op_ternary.h"

#include <limits>

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {

Error addcmul_out(KernelContext& context, const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                  const Scalar& value, Tensor& out) {
  const ScalarType common = result_type({&self, &tensor1, &tensor2});
  ET_RETURN_IF_ERROR(check_can_cast("aten::addcmul", common, out.scalar_type()));
  return dispatch_compute(common, [&](auto zero) {
    using C = decltype(zero);
    const C factor = scalar_to<C>(value);
    return elementwise<C>(
        context, "aten::addcmul", common, out,
        [factor](C a, C b, C c) { return wrapping_add(a, wrapping_mul(wrapping_mul(factor, b), c)); }, self, tensor1,
        tensor2);
  });
}

Error addcdiv_out(KernelContext& context, const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                  const Scalar& value, Tensor& out) {
  const ScalarType common = result_type({&self, &tensor1, &tensor2});
  ET_CHECK_OR_RETURN(is_floating(common), InvalidType, "aten::addcdiv: operands are %s, must be floating",
                     to_string(common));
  ET_RETURN_IF_ERROR(check_can_cast("aten::addcdiv", common, out.scalar_type()));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    const C factor = scalar_to<C>(value);
    return elementwise<C>(
        context, "aten::addcdiv", common, out, [factor](C a, C b, C c) { return a + factor * b / c; }, self, tensor1,
        tensor2);
  });
}

namespace {

// From the nearer end, so that weight 1 gives exactly `end`.
template <typename C>
C lerp_of(C start, C end, C weight) {
  return std::fabs(weight) < C(0.5) ? start + weight * (end - start) : end - (end - start) * (C(1) - weight);
}

}  // namespace

Error lerp_tensor_out(KernelContext& context, const Tensor& self, const Tensor& end, const Tensor& weight,
                      Tensor& out) {
  const ScalarType common = result_type({&self, &end, &weight});
  ET_CHECK_OR_RETURN(is_floating(common), InvalidType, "aten::lerp: operands are %s, must be floating",
                     to_string(common));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(
        context, "aten::lerp", common, out, [](C a, C b, C w) { return lerp_of(a, b, w); }, self, end, weight);
  });
}

Error lerp_scalar_out(KernelContext& context, const Tensor& self, const Tensor& end, const Scalar& weight,
                      Tensor& out) {
  const ScalarType common = result_type({&self, &end});
  ET_CHECK_OR_RETURN(is_floating(common), InvalidType, "aten::lerp: operands are %s, must be floating",
                     to_string(common));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    const C w = scalar_to<C>(weight);
    return elementwise<C>(context, "aten::lerp", common, out, [w](C a, C b) { return lerp_of(a, b, w); }, self, end);
  });
}

Error nan_to_num_out(KernelContext& context, const Tensor& self, std::optional<double> nan,
                     std::optional<double> posinf, std::optional<double> neginf, Tensor& out) {
  const ScalarType dtype = self.scalar_type();
  const double largest = dtype == ScalarType::Half       ? 65504.0
                         : dtype == ScalarType::BFloat16 ? 0x1.FEp127
                         : dtype == ScalarType::Float    ? static_cast<double>(std::numeric_limits<float>::max())
                                                         : std::numeric_limits<double>::max();
  const double for_nan = nan.value_or(0.0);
  const double high = posinf.value_or(largest);
  const double low = neginf.value_or(-largest);
  return same_type_unary(context, "aten::nan_to_num", self, out, [=](auto x) {
    using C = decltype(x);
    if constexpr (std::is_integral_v<C>) {
      return x;
    } else {
      return is_nan(x) ? static_cast<C>(for_nan) : !std::isinf(x) ? x : static_cast<C>(x > C(0) ? high : low);
    }
  });
}

}  // namespace et::kernels::portable
