// Bessel functions, modified ones, and Airy's. Computed in double.
#define _DEFAULT_SOURCE 1  // newlib has j0 and its kin for C++17 without extensions only then
#include "kernels/portable/op_bessel.h"

#include <math.h>  // j0 and its kin are POSIX, not C++

#include <cmath>

#include "kernels/portable/smooth_unary.h"

namespace et::kernels::portable {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kEuler = 0.57721566490153286061;

// exp(-|x|) I_order(x), order 0 or 1. Source: M. Abramowitz, I. Stegun, "Handbook of mathematical
// functions", 9.6.10, 9.7.1.
double scaled_bessel_i(int order, double x) {
  const double size = std::fabs(x);
  double result;
  if (size <= 30.0) {
    const double square = 0.25 * size * size;
    double term = order == 0 ? 1.0 : 0.5 * size;
    double sum = term;
    for (int k = 1; term > 1e-17 * sum; ++k) {
      term *= square / (k * static_cast<double>(k + order));
      sum += term;
    }
    result = std::exp(-size) * sum;
  } else if (std::isinf(size)) {
    result = 0.0;
  } else {
    double term = 1.0, sum = 1.0;
    for (int k = 1; k < 30; ++k) {
      const double odd = 2 * k - 1;
      const double next = -term * (4.0 * order - odd * odd) / (8.0 * k * size);
      if (!(std::fabs(next) < std::fabs(term))) {
        break;
      }
      term = next;
      sum += term;
    }
    result = sum / (std::sqrt(2.0 * kPi) * std::sqrt(size));  // which overflows for no size
  }
  return order == 1 && x < 0 ? -result : result;
}

double bessel_i(int order, double x) { return scaled_bessel_i(order, x) * std::exp(std::fabs(x)); }

// exp(x) K_order(x) for x > 0: the trapezoidal rule on an integral whose integrand falls off doubly exponentially.
// Source: Abramowitz and Stegun, 9.6.24.
double integrated_bessel_k(double order, double x) {
  if (x > 50.0) {  // what is integrated gets narrow; source: Abramowitz and Stegun, 9.7.2
    double term = 1.0, sum = 1.0;
    for (int k = 1; std::fabs(term) > 1e-17 * sum; ++k) {
      term *= (4.0 * order * order - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (8.0 * k * x);
      sum += term;
    }
    return std::sqrt(0.5 * kPi / x) * sum;
  }
  constexpr double kStep = 1.0 / 16.0;
  double sum = 0.5;
  for (int i = 1; i < 400; ++i) {
    const double t = kStep * i;
    const double term = std::exp(-x * (std::cosh(t) - 1.0)) * std::cosh(order * t);
    sum += term;
    if (term < 1e-17 * sum) {
      break;
    }
  }
  return kStep * sum;
}

// Source: Abramowitz and Stegun, 9.6.11 and 9.6.13.
double scaled_bessel_k(int order, double x) {
  if (x == 0.0) {
    return HUGE_VAL;
  }
  if (x < 0.0 || std::isnan(x)) {
    return NAN;
  }
  if (std::isinf(x)) {
    return 0.0;
  }
  if (x > 1.0) {
    return integrated_bessel_k(order, x);
  }
  const double square = 0.25 * x * x;
  const double log_half = std::log(0.5 * x);
  double term = order == 0 ? 1.0 : 0.5 * x;
  double harmonic = order == 0 ? -kEuler : 0.5 * (1.0 - 2.0 * kEuler);  // mean of the psi functions in a term
  double sum = term * (harmonic - log_half);
  for (int k = 1; k < 25; ++k) {
    term *= square / (k * static_cast<double>(k + order));
    harmonic += order == 0 ? 1.0 / k : 0.5 * (1.0 / k + 1.0 / (k + 1));
    sum += term * (harmonic - log_half);
  }
  return std::exp(x) * (order == 0 ? sum : 1.0 / x - sum);
}

double bessel_k(int order, double x) { return scaled_bessel_k(order, x) * std::exp(-x); }

// Source: Abramowitz and Stegun, 10.4.2 to 10.4.5, 10.4.14 and 10.4.60.
double airy_ai(double x) {
  if (std::isnan(x) || std::isinf(x)) {
    return std::isnan(x) ? x : x > 0 ? 0.0 : NAN;
  }
  const double zeta = 2.0 / 3.0 * std::fabs(x) * std::sqrt(std::fabs(x));
  if (x > 1.0) {
    return std::sqrt(x / 3.0) / kPi * std::exp(-zeta) * integrated_bessel_k(1.0 / 3.0, zeta);
  }
  if (x >= -8.0) {
    double f = 1.0, g = x, sum_f = 1.0, sum_g = x;
    for (int k = 0; k < 60; ++k) {
      f *= x * x * x / ((3.0 * k + 2.0) * (3.0 * k + 3.0));
      g *= x * x * x / ((3.0 * k + 3.0) * (3.0 * k + 4.0));
      sum_f += f;
      sum_g += g;
    }
    return 0.355028053887817239260 * sum_f - 0.258819403792806798405 * sum_g;
  }
  double term = 1.0, even = 1.0, odd = 0.0;
  for (int k = 1; k < 20; ++k) {
    const double next =
        term * (6.0 * k - 5.0) * (6.0 * k - 3.0) * (6.0 * k - 1.0) / (216.0 * k * (2.0 * k - 1.0) * zeta);
    if (next > term) {
      break;
    }
    term = next;
    (k % 2 == 0 ? even : odd) += (k / 2) % 2 == 0 ? term : -term;
  }
  const double angle = zeta + 0.25 * kPi;
  return (std::sin(angle) * even - std::cos(angle) * odd) / (std::sqrt(kPi) * std::sqrt(std::sqrt(-x)));
}

double bessel_y(int order, double x) { return x < 0.0 ? static_cast<double>(NAN) : order == 0 ? ::y0(x) : ::y1(x); }

}  // namespace

#define ET_SPECIAL_UNARY(name, expression)                                                                  \
  Error name##_out(KernelContext& context, const Tensor& self, Tensor& out) {                               \
    return smooth_unary(context, "aten::" #name, self, out, [](double x) -> double { return expression; }); \
  }

ET_SPECIAL_UNARY(i0, bessel_i(0, x))
ET_SPECIAL_UNARY(special_airy_ai, airy_ai(x))
ET_SPECIAL_UNARY(special_bessel_j0, ::j0(x))
ET_SPECIAL_UNARY(special_bessel_j1, ::j1(x))
ET_SPECIAL_UNARY(special_bessel_y0, bessel_y(0, x))
ET_SPECIAL_UNARY(special_bessel_y1, bessel_y(1, x))
ET_SPECIAL_UNARY(special_i0e, scaled_bessel_i(0, x))
ET_SPECIAL_UNARY(special_i1, bessel_i(1, x))
ET_SPECIAL_UNARY(special_i1e, scaled_bessel_i(1, x))
ET_SPECIAL_UNARY(special_modified_bessel_i0, bessel_i(0, x))
ET_SPECIAL_UNARY(special_modified_bessel_i1, bessel_i(1, x))
ET_SPECIAL_UNARY(special_modified_bessel_k0, bessel_k(0, x))
ET_SPECIAL_UNARY(special_modified_bessel_k1, bessel_k(1, x))
ET_SPECIAL_UNARY(special_scaled_modified_bessel_k0, scaled_bessel_k(0, x))
ET_SPECIAL_UNARY(special_scaled_modified_bessel_k1, scaled_bessel_k(1, x))
ET_SPECIAL_UNARY(special_spherical_bessel_j0, std::isinf(x) ? 0.0 : x == 0.0 ? 1.0 : std::sin(x) / x)

}  // namespace et::kernels::portable
