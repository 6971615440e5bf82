// Unary operators that are one function of one number.
#include "kernels/portable/op_unary.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {
namespace {

// Integers and bool: as they are; the rounding operators have nothing to do there.
template <typename C, typename Fn>
C on_floats(C a, Fn fn) {
  if constexpr (std::is_integral_v<C>) {
    return a;
  } else {
    return fn(a);
  }
}

template <typename Fn>
Error predicate(KernelContext& context, const char* op, const Tensor& self, Tensor& out, const Fn& fn) {
  return dispatch_compute(self.scalar_type(), [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C, bool>(context, op, self.scalar_type(), out, fn, self);
  });
}

}  // namespace

// Computed in floating types, whatever the input.
#define ET_FLOAT_UNARY(name, expression)                                               \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {          \
    return float_unary(context, "aten::" #name, self, out, [](auto x) {                \
      using C = decltype(x);                                                           \
      static_cast<void>(sizeof(C));                                                    \
      return static_cast<C>(expression);                                               \
    });                                                                                \
  }

ET_FLOAT_UNARY(acos, std::acos(x))
ET_FLOAT_UNARY(acosh, std::acosh(x))
ET_FLOAT_UNARY(asin, std::asin(x))
ET_FLOAT_UNARY(asinh, std::asinh(x))
ET_FLOAT_UNARY(atan, std::atan(x))
ET_FLOAT_UNARY(atanh, std::atanh(x))
ET_FLOAT_UNARY(cos, std::cos(x))
ET_FLOAT_UNARY(cosh, std::cosh(x))
ET_FLOAT_UNARY(erf, std::erf(x))
ET_FLOAT_UNARY(erfc, std::erfc(x))
ET_FLOAT_UNARY(exp, std::exp(x))
ET_FLOAT_UNARY(exp2, std::exp2(x))
ET_FLOAT_UNARY(expm1, std::expm1(x))
ET_FLOAT_UNARY(lgamma, std::lgamma(x))
ET_FLOAT_UNARY(log, std::log(x))
ET_FLOAT_UNARY(log10, std::log10(x))
ET_FLOAT_UNARY(log1p, std::log1p(x))
ET_FLOAT_UNARY(log2, std::log2(x))
ET_FLOAT_UNARY(reciprocal, C(1) / x)
ET_FLOAT_UNARY(rsqrt, C(1) / std::sqrt(x))
ET_FLOAT_UNARY(sigmoid, C(1) / (C(1) + std::exp(-x)))
ET_FLOAT_UNARY(sin, std::sin(x))
ET_FLOAT_UNARY(sinh, std::sinh(x))
ET_FLOAT_UNARY(sqrt, std::sqrt(x))
ET_FLOAT_UNARY(tan, std::tan(x))
ET_FLOAT_UNARY(tanh, std::tanh(x))

// The type of the input is kept.
#define ET_SAME_TYPE_UNARY(name, expression)                                                                   \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {                                  \
    return same_type_unary(context, "aten::" #name, self, out, [](auto x) { return decltype(x)(expression); }); \
  }

ET_SAME_TYPE_UNARY(abs, x < 0 ? negate(x) : x == 0 ? decltype(x)(0) : x)
ET_SAME_TYPE_UNARY(ceil, on_floats(x, [](auto v) { return std::ceil(v); }))
ET_SAME_TYPE_UNARY(floor, on_floats(x, [](auto v) { return std::floor(v); }))
ET_SAME_TYPE_UNARY(frac, on_floats(x, [](auto v) { return v - std::trunc(v); }))
ET_SAME_TYPE_UNARY(neg, negate(x))
ET_SAME_TYPE_UNARY(relu, x <= 0 ? decltype(x)(0) : x)
ET_SAME_TYPE_UNARY(round, on_floats(x, [](auto v) { return std::nearbyint(v); }))
ET_SAME_TYPE_UNARY(sign, sign_of(x))
ET_SAME_TYPE_UNARY(trunc, on_floats(x, [](auto v) { return std::trunc(v); }))

#define ET_PREDICATE(name, expression)                                                                \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {                         \
    return predicate(context, "aten::" #name, self, out, [](auto x) -> bool { return expression; });  \
  }

ET_PREDICATE(isfinite, x - x == 0)
ET_PREDICATE(isinf, x == x && !(x - x == 0))
ET_PREDICATE(isnan, is_nan(x))
ET_PREDICATE(logical_not, x == 0)

Error bitwise_not_out(KernelContext& context, const Tensor& self, Tensor& out) {
  const ScalarType dtype = self.scalar_type();
  ET_CHECK_OR_RETURN(is_integral(dtype, true), InvalidType, "aten::bitwise_not: self is %s, must be an integer or bool",
                     to_string(dtype));
  ET_RETURN_IF_ERROR(check_can_cast("aten::bitwise_not", dtype, out.scalar_type()));
  const bool is_bool = dtype == ScalarType::Bool;
  return elementwise<int64_t>(
      context, "aten::bitwise_not", dtype, out, [is_bool](int64_t a) { return is_bool ? 1 - a : ~a; }, self);
}

}  // namespace et::kernels::portable
