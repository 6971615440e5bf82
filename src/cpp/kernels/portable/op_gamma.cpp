// The functions around gamma: Hurwitz's zeta, polygamma, the incomplete gamma functions; and those around the normal
// distribution.
#include "kernels/portable/op_gamma.h"

#include <cmath>

#include "kernels/portable/elementwise.h"
#include "kernels/portable/smooth_unary.h"

namespace et::kernels::portable {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kPi = 3.14159265358979323846;

// a^-x; polygamma's orders are whole numbers.
double inverse_power(double a, double x) {
  if (x > 8.0 || x != std::floor(x)) {
    return std::pow(a, -x);
  }
  double power = a;
  for (int i = 1; i < static_cast<int>(x); ++i) {
    power *= a;
  }
  return 1.0 / power;
}

// Sum of 1 / (q + k)^x over k >= 0, by Euler's and Maclaurin's formula.
// Source: NIST Handbook of Mathematical Functions, 25.11.43; Bernoulli's numbers B(2k) / (2k)!.
double zeta(double x, double q) {
  if (x == 1.0) {
    return HUGE_VAL;
  }
  if (!(x > 1.0)) {
    return NAN;
  }
  if (q <= 0.0) {
    if (q == std::floor(q)) {
      return HUGE_VAL;
    }
    if (x != std::floor(x)) {
      return NAN;
    }
  }
  if (std::isinf(q)) {
    return std::isinf(x) ? static_cast<double>(NAN) : 0.0;
  }
  double sum = 0.0, a = q;
  for (int i = 0; i < 12 || a <= 12.0; ++i, a += 1.0) {
    const double term = inverse_power(a, x);
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum) && a > 0.0) {
      return sum;
    }
  }
  const double power = inverse_power(a, x);
  sum += power * a / (x - 1.0) + 0.5 * power;
  constexpr double kBernoulli[] = {1.0 / 12.0,          -1.0 / 720.0,
                                   1.0 / 30240.0,       -1.0 / 1209600.0,
                                   1.0 / 47900160.0,    -691.0 / 1307674368000.0,
                                   1.0 / 74724249600.0, -3617.0 / 10670622842880000.0};
  double factor = x * power / a;
  for (int k = 0; k < 8; ++k) {
    sum += kBernoulli[k] * factor;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (a * a);
  }
  return sum;
}

double polygamma(int64_t n, double x) {
  const double order = static_cast<double>(n);
  const double sign = n % 2 == 0 ? -1.0 : 1.0;
  if (n == 1 && x < 0.5) {  // reflected, so that arguments below zero are right, too
    const double s = std::sin(kPi * x);
    return kPi * kPi / (s * s) - zeta(2.0, 1.0 - x);
  }
  return sign * std::exp(std::lgamma(order + 1.0)) * zeta(order + 1.0, x);
}

// The lower incomplete gamma function, divided by gamma(a): its series. Source: Abramowitz and Stegun, 6.5.29.
double gamma_series(double a, double x) {
  double term = 1.0 / a, sum = term;
  for (int k = 1; k < 20000 && std::fabs(term) > 1e-17 * std::fabs(sum); ++k) {
    term *= x / (a + k);
    sum += term;
  }
  return sum * std::exp(a * std::log(x) - x - std::lgamma(a));
}

// The upper one: Lentz's method on its continued fraction. Source: Abramowitz and Stegun, 6.5.31.
double gamma_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1.0 - a, c = 1.0 / kTiny, d = 1.0 / b, h = d;
  for (int k = 1; k < 20000; ++k) {
    const double factor = -k * (k - a);
    b += 2.0;
    d = factor * d + b;
    d = 1.0 / (std::fabs(d) < kTiny ? kTiny : d);
    c = b + factor / c;
    c = std::fabs(c) < kTiny ? kTiny : c;
    h *= d * c;
    if (std::fabs(d * c - 1.0) < 1e-16) {
      break;
    }
  }
  return h * std::exp(a * std::log(x) - x - std::lgamma(a));
}

// Either of them for large a, of which the series take long: the first two terms of a uniform expansion.
// Source: NIST Handbook of Mathematical Functions, 8.12.3 to 8.12.8.
double gamma_of_large(double a, double x, bool upper) {
  const double distance = (x - a) / a;
  double half_square = distance - std::log1p(distance);  // eta² / 2
  double correction = 1.0 / distance;                    // less 1 / eta
  if (std::fabs(distance) < 1e-3) {
    half_square = distance * distance * (0.5 - distance * (1.0 / 3.0 - distance * (0.25 - distance * 0.2)));
    correction = -1.0 / 3.0 + distance * (1.0 / 12.0 + 1.0 / 36.0);
  } else {
    correction -= std::copysign(1.0 / std::sqrt(2.0 * half_square), distance);
  }
  const double side = std::copysign(std::sqrt(a * half_square), upper ? distance : -distance);
  const double rest = std::exp(-a * half_square) / std::sqrt(2.0 * kPi * a) * correction;
  return 0.5 * std::erfc(side) + (upper ? rest : -rest);
}

double incomplete_gamma(double a, double x, bool upper) {
  if (std::isnan(a) || std::isnan(x) || a < 0.0 || x < 0.0) {
    return NAN;
  }
  if (a == 0.0) {
    return x > 0.0 ? (upper ? 0.0 : 1.0) : static_cast<double>(NAN);
  }
  if (x == 0.0) {
    return upper ? 1.0 : 0.0;
  }
  if (std::isinf(a)) {
    return std::isinf(x) ? static_cast<double>(NAN) : upper ? 1.0 : 0.0;
  }
  if (std::isinf(x)) {
    return upper ? 0.0 : 1.0;
  }
  if (a > 1e7) {
    return gamma_of_large(a, x, upper);
  }
  if (x < a + 1.0) {
    const double lower = gamma_series(a, x);
    return upper ? 1.0 - lower : lower;
  }
  const double above = gamma_fraction(a, x);
  return upper ? above : 1.0 - above;
}

// exp(x²) erfc(x). Source: Abramowitz and Stegun, 7.1.14 (the continued fraction, for large x).
double scaled_erfc(double x) {
  if (x < 5.0) {
    return std::exp(x * x) * std::erfc(x);
  }
  double fraction = x;
  for (int k = 60; k >= 1; --k) {
    fraction = x + 0.5 * k / fraction;
  }
  return 1.0 / (fraction * std::sqrt(kPi));
}

double log_normal_distribution(double x) {
  const double t = x * kSqrtHalf;
  return x < -1.0 ? std::log(0.5 * scaled_erfc(-t)) - t * t : std::log1p(-0.5 * std::erfc(t));
}

// Steps of Halley's method on the lower tail from a start that is right in its leading digits.
// Source: Abramowitz and Stegun, 26.2.23 (the start).
double inverse_normal_distribution(double p) {
  if (!(p > 0.0 && p < 1.0)) {
    return p == 0.0 ? -HUGE_VAL : p == 1.0 ? HUGE_VAL : static_cast<double>(NAN);
  }
  const bool mirrored = p > 0.5;
  const double tail = mirrored ? 1.0 - p : p;
  const double t = std::sqrt(-2.0 * std::log(tail));
  double x = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int step = 0; step < 3; ++step) {
    const double error = 0.5 * std::erfc(-x * kSqrtHalf) - tail;
    const double u = error * std::sqrt(2.0 * kPi) * std::exp(0.5 * x * x);
    x -= u / (1.0 + 0.5 * x * u);
  }
  return mirrored ? -x : x;
}

template <typename C>
C entropy(C x) {
  return std::isnan(x) ? x : x > C(0) ? -x * std::log(x) : x == C(0) ? C(0) : -static_cast<C>(HUGE_VAL);
}

template <typename C>
C x_log1p_y(C x, C y) {
  return std::isnan(y) ? y : x == C(0) ? C(0) : x * std::log1p(y);
}

template <typename Fn>
Error float_binary(KernelContext& context, const char* op, const Tensor& self, const Tensor& other, Tensor& out,
                   const Fn& fn) {
  const ScalarType common = to_floating(result_type({&self, &other}));
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(context, op, common, out, [&](C a, C b) { return static_cast<C>(fn(a, b)); }, self, other);
  });
}

}  // namespace

Error polygamma_out(KernelContext& context, int64_t n, const Tensor& self, Tensor& out) {
  ET_CHECK_OR_RETURN(n >= 1, InvalidArgument, "aten::polygamma: n is %" PRId64 ", must be at least 1 (0 is digamma)",
                     n);
  return smooth_unary(context, "aten::polygamma", self, out, [n](double x) { return polygamma(n, x); });
}

Error special_zeta_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return float_binary(context, "aten::special_zeta", self, other, out,
                      [](auto a, auto b) { return zeta(static_cast<double>(a), static_cast<double>(b)); });
}

Error igamma_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return float_binary(context, "aten::igamma", self, other, out, [](auto a, auto b) {
    return incomplete_gamma(static_cast<double>(a), static_cast<double>(b), false);
  });
}

Error igammac_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return float_binary(context, "aten::igammac", self, other, out, [](auto a, auto b) {
    return incomplete_gamma(static_cast<double>(a), static_cast<double>(b), true);
  });
}

Error special_xlog1py_out(KernelContext& context, const Tensor& self, const Tensor& other, Tensor& out) {
  return float_binary(context, "aten::special_xlog1py", self, other, out,
                      [](auto a, auto b) { return x_log1p_y(a, b); });
}

Error special_erfcx_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return smooth_unary(context, "aten::special_erfcx", self, out, [](double x) { return scaled_erfc(x); });
}

Error special_log_ndtr_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return smooth_unary(context, "aten::special_log_ndtr", self, out,
                      [](double x) { return log_normal_distribution(x); });
}

Error special_ndtri_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return smooth_unary(context, "aten::special_ndtri", self, out,
                      [](double x) { return inverse_normal_distribution(x); });
}

Error special_entr_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return float_unary(context, "aten::special_entr", self, out, [](auto x) { return entropy(x); });
}

}  // namespace et::kernels::portable
