// Unary operators that are one function of one number.
#include "kernels/portable/op_unary.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/complex_elementwise.h"
#include "kernels/portable/elementwise.h"
#include "kernels/portable/smooth_unary.h"

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

template <typename C>
constexpr C kPi = C(3.14159265358979323846);

// A start value that is right to six digits but in the ends, then steps of Halley's method on erf, which triple them.
// Source: M. Giles, "Approximating the erfinv function", 2010 (the single-precision polynomials).
double inverse_erf(double y) {
  if (!(y > -1.0 && y < 1.0)) {
    return y == 1.0 || y == -1.0 ? y * HUGE_VAL : NAN;
  }
  double w = -std::log((1.0 - y) * (1.0 + y));
  double p;
  if (w < 5.0) {
    w -= 2.5;
    constexpr double c[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                            -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
    p = c[0];
    for (int i = 1; i < 9; ++i) {
      p = p * w + c[i];
    }
  } else {
    w = std::sqrt(w) - 3.0;
    constexpr double c[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                            -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    p = c[0];
    for (int i = 1; i < 9; ++i) {
      p = p * w + c[i];
    }
  }
  double x = p * y;
  for (int i = 0; i < 10; ++i) {
    // In the tails erf(x) - y would cancel; erfc keeps the digits.
    const double error = y > 0.5 ? (1.0 - y) - std::erfc(x) : y < -0.5 ? std::erfc(-x) - (1.0 + y) : std::erf(x) - y;
    const double newton = error / (1.12837916709551257390 * std::exp(-x * x));
    const double step = newton / (1.0 + x * newton);
    x -= step;
    if (std::fabs(step) <= 1e-6 * std::fabs(x)) {
      break;  // the next one would be below the last digit
    }
  }
  return x;
}

// Source: M. Abramowitz, I. Stegun, "Handbook of mathematical functions", 6.3.5, 6.3.7 and 6.3.18.
double digamma_of(double x) {
  if (x == 0.0) {
    return std::copysign(HUGE_VAL, -x);
  }
  double reflection = 0.0;
  if (x < 0.0) {
    if (x == std::trunc(x)) {
      return NAN;
    }
    reflection = -kPi<double> / std::tan(kPi<double> * (x - std::trunc(x)));
    x = 1.0 - x;
  }
  double sum = 0.0;
  for (; x < 10.0; x += 1.0) {
    sum -= 1.0 / x;
  }
  const double z = 1.0 / (x * x);
  const double series =
      z *
      (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return reflection + sum + std::log(x) - 0.5 / x - series;
}

template <typename C>
C two_to_the(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::exp2(x);
  } else {
    return std::pow(2.0, x);
  }
}

template <typename C>
C binary_logarithm(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    return std::log2(x);
  } else {
    return std::log(x) / 0.69314718055994530942;
  }
}

template <typename Fn>
Error complex_unary(KernelContext& context, const char* op, const Tensor& self, Tensor& out, const Fn& fn) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  return complex_elementwise(context, op, out, fn, self);
}

template <typename C>
bool has_sign(C x) {
  if constexpr (std::is_integral_v<C>) {
    return x < 0;
  } else {
    return std::signbit(x);
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
#define ET_FLOAT_UNARY(name, expression)                                      \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) { \
    return float_unary(context, "aten::" #name, self, out, [](auto x) {       \
      using C = decltype(x);                                                  \
      static_cast<void>(sizeof(C));                                           \
      return static_cast<C>(expression);                                      \
    });                                                                       \
  }

ET_FLOAT_UNARY(erf, std::erf(x))
ET_FLOAT_UNARY(expm1, std::expm1(x))
ET_FLOAT_UNARY(log1p, std::log1p(x))
ET_FLOAT_UNARY(sinc, x == C(0) ? C(1) : std::sin(x * kPi<C>) / (x * kPi<C>))

// Smooth functions that take long.
#define ET_SMOOTH_UNARY(name, expression)                                                                   \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {                               \
    return smooth_unary(context, "aten::" #name, self, out, [](double x) -> double { return expression; }); \
  }

ET_SMOOTH_UNARY(digamma, digamma_of(x))
ET_SMOOTH_UNARY(erfc, std::erfc(x))
ET_SMOOTH_UNARY(erfinv, inverse_erf(x))
ET_SMOOTH_UNARY(lgamma, std::lgamma(x))

// The same on complex numbers, too: the functions of <cmath> have namesakes in <complex>.
#define ET_COMPLEX_UNARY(name, expression)                                                        \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {                     \
    const auto fn = [](auto x) {                                                                  \
      using C = decltype(x);                                                                      \
      static_cast<void>(sizeof(C));                                                               \
      return static_cast<C>(expression);                                                          \
    };                                                                                            \
    return is_complex(self.scalar_type()) ? complex_unary(context, "aten::" #name, self, out, fn) \
                                          : float_unary(context, "aten::" #name, self, out, fn);  \
  }

ET_COMPLEX_UNARY(acos, std::acos(x))
ET_COMPLEX_UNARY(acosh, std::acosh(x))
ET_COMPLEX_UNARY(asin, std::asin(x))
ET_COMPLEX_UNARY(asinh, std::asinh(x))
ET_COMPLEX_UNARY(atan, std::atan(x))
ET_COMPLEX_UNARY(atanh, std::atanh(x))
ET_COMPLEX_UNARY(cos, std::cos(x))
ET_COMPLEX_UNARY(cosh, std::cosh(x))
ET_COMPLEX_UNARY(exp, std::exp(x))
ET_COMPLEX_UNARY(exp2, two_to_the(x))
ET_COMPLEX_UNARY(log, std::log(x))
ET_COMPLEX_UNARY(log10, std::log10(x))
ET_COMPLEX_UNARY(log2, binary_logarithm(x))
ET_COMPLEX_UNARY(reciprocal, C(1) / x)
ET_COMPLEX_UNARY(rsqrt, C(1) / std::sqrt(x))
ET_COMPLEX_UNARY(sigmoid, C(1) / (C(1) + std::exp(-x)))
ET_COMPLEX_UNARY(sin, std::sin(x))
ET_COMPLEX_UNARY(sinh, std::sinh(x))
ET_COMPLEX_UNARY(sqrt, std::sqrt(x))
ET_COMPLEX_UNARY(tan, std::tan(x))
ET_COMPLEX_UNARY(tanh, std::tanh(x))

// The type of the input is kept.
#define ET_SAME_TYPE_UNARY(name, expression)                                                                    \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {                                   \
    return same_type_unary(context, "aten::" #name, self, out, [](auto x) { return decltype(x)(expression); }); \
  }

ET_SAME_TYPE_UNARY(ceil, on_floats(x, [](auto v) { return std::ceil(v); }))
ET_SAME_TYPE_UNARY(floor, on_floats(x, [](auto v) { return std::floor(v); }))
ET_SAME_TYPE_UNARY(frac, on_floats(x, [](auto v) { return v - std::trunc(v); }))
ET_SAME_TYPE_UNARY(relu, x <= 0 ? decltype(x)(0) : x)
ET_SAME_TYPE_UNARY(round, on_floats(x, [](auto v) { return std::nearbyint(v); }))
ET_SAME_TYPE_UNARY(sign, sign_of(x))
ET_SAME_TYPE_UNARY(trunc, on_floats(x, [](auto v) { return std::trunc(v); }))

#define ET_SAME_TYPE_UNARY_OR_COMPLEX(name, expression, complex_expression)                                         \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {                                       \
    if (is_complex(self.scalar_type())) {                                                                           \
      return complex_elementwise(context, "aten::" #name, out, [](Complex x) { return complex_expression; }, self); \
    }                                                                                                               \
    return same_type_unary(context, "aten::" #name, self, out, [](auto x) { return decltype(x)(expression); });     \
  }

ET_SAME_TYPE_UNARY_OR_COMPLEX(abs, x < 0 ? negate(x) : x == 0 ? decltype(x)(0) : x, std::abs(x))
ET_SAME_TYPE_UNARY_OR_COMPLEX(neg, negate(x), -x)
ET_SAME_TYPE_UNARY_OR_COMPLEX(square, wrapping_mul(x, x), x* x)

Error angle_out(KernelContext& context, const Tensor& self, Tensor& out) {
  if (is_complex(self.scalar_type())) {
    return complex_elementwise(context, "aten::angle", out, [](Complex x) { return std::arg(x); }, self);
  }
  return float_unary(context, "aten::angle", self, out, [](auto x) {
    using C = decltype(x);
    return is_nan(x) ? x : x < 0 ? kPi<C> : C(0);
  });
}

#define ET_PREDICATE(name, expression)                                                               \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {                        \
    return predicate(context, "aten::" #name, self, out, [](auto x) -> bool { return expression; }); \
  }

ET_PREDICATE(isfinite, x - x == 0)
ET_PREDICATE(isinf, x == x && !(x - x == 0))
ET_PREDICATE(isnan, is_nan(x))
ET_PREDICATE(logical_not, x == 0)
ET_PREDICATE(signbit, has_sign(x))

Error round_decimals_out(KernelContext& context, const Tensor& self, int64_t decimals, Tensor& out) {
  constexpr const char* kOp = "aten::round";
  if (decimals == 0) {
    return round_out(context, self, out);
  }
  const ScalarType dtype = self.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(dtype), InvalidType, "%s: self is %s, must be floating for decimals", kOp,
                     to_string(dtype));
  ET_RETURN_IF_ERROR(check_can_cast(kOp, dtype, out.scalar_type()));
  const double power = std::pow(10.0, std::fabs(static_cast<double>(decimals)));
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    const C p = static_cast<C>(power);
    if (decimals < 0) {
      return elementwise<C>(context, kOp, dtype, out, [p](C x) { return std::nearbyint(x / p) * p; }, self);
    }
    return elementwise<C>(context, kOp, dtype, out, [p](C x) { return std::nearbyint(x * p) / p; }, self);
  });
}

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
