// Orthogonal polynomials of degree n at x, by their three-term recurrences. n is a tensor, too; what follows its point
// is cut off.
#include "kernels/portable/op_polynomial.h"

#include <cmath>
#include <limits>

#include "kernels/portable/elementwise.h"

namespace et::kernels::portable {
namespace {

bool is_even(int64_t n) { return n % 2 == 0; }

// p(0) = 1, p(1) = first, p(k + 1) = next(k, p(k), p(k - 1)).
template <typename C, typename Next>
C recurrence(int64_t n, C first, const Next& next) {
  if (n <= 0) {
    return n < 0 ? C(0) : C(1);
  }
  C before = C(1), value = first;
  for (int64_t k = 1; k < n && !std::isnan(value); ++k) {
    const C after = next(k, value, before);
    before = value;
    value = after;
  }
  return value;
}

template <typename C>
C chebyshev(C x, int64_t n, C first) {
  return recurrence(n, first, [x](int64_t, C value, C before) { return (x + x) * value - before; });
}

template <typename C>
C chebyshev_t(C x, int64_t n) {
  if (n < 0) {
    return C(0);
  }
  if (std::fabs(x) == C(1)) {
    return x > C(0) || is_even(n) ? C(1) : C(-1);
  }
  return n > 6 && std::fabs(x) < C(1) ? std::cos(static_cast<C>(n) * std::acos(x)) : chebyshev(x, n, x);
}

template <typename C>
C chebyshev_u(C x, int64_t n) {
  if (n < 0) {
    return C(0);
  }
  const C count = static_cast<C>(n + 1);
  if (std::fabs(x) == C(1)) {
    return x > C(0) || is_even(n) ? count : -count;
  }
  if (n > 8 && std::fabs(x) < C(1)) {
    const C angle = std::acos(x);
    return std::sin(count * angle) / std::sin(angle);
  }
  return chebyshev(x, n, x + x);
}

template <typename C>
C chebyshev_v(C x, int64_t n) {
  if (n < 0) {
    return C(0);
  }
  const C count = static_cast<C>(n + n + 1);
  if (std::fabs(x) == C(1)) {
    return x > C(0) ? C(1) : is_even(n) ? count : -count;
  }
  if (n > 8 && std::fabs(x) < C(1)) {
    const C half = std::acos(x) / C(2);
    return std::cos(count * half) / std::cos(half);
  }
  return chebyshev(x, n, x + x - C(1));
}

template <typename C>
C chebyshev_w(C x, int64_t n) {
  if (n < 0) {
    return C(0);
  }
  const C count = static_cast<C>(n + n + 1);
  if (std::fabs(x) == C(1)) {
    return x > C(0) ? count : is_even(n) ? C(1) : C(-1);
  }
  if (n > 8 && std::fabs(x) < C(1)) {
    const C half = std::acos(x) / C(2);
    return std::sin(count * half) / std::sin(half);
  }
  return chebyshev(x, n, x + x + C(1));
}

// Beyond these degrees PyTorch does not compute Hermite's polynomials.
template <typename C>
constexpr int64_t kMostHermite = sizeof(C) == sizeof(float) ? 128 : 512;

template <typename C>
C hermite_h(C x, int64_t n) {
  if (n > kMostHermite<C>) {
    return std::numeric_limits<C>::quiet_NaN();
  }
  return recurrence(n, x + x,
                    [x](int64_t k, C value, C before) { return (x + x) * value - static_cast<C>(k + k) * before; });
}

template <typename C>
C hermite_he(C x, int64_t n) {
  if (n > kMostHermite<C>) {
    return std::numeric_limits<C>::quiet_NaN();
  }
  return recurrence(n, x, [x](int64_t k, C value, C before) { return x * value - static_cast<C>(k) * before; });
}

template <typename C>
C laguerre_l(C x, int64_t n) {
  if (n >= 0 && x == C(0)) {
    return C(1);
  }
  return recurrence(n, C(1) - x, [x](int64_t k, C value, C before) {
    return ((static_cast<C>(k + k + 1) - x) * value - static_cast<C>(k) * before) / static_cast<C>(k + 1);
  });
}

template <typename C>
C legendre_p(C x, int64_t n) {
  if (n >= 0 && std::fabs(x) == C(1)) {
    return x > C(0) || is_even(n) ? C(1) : C(-1);
  }
  return recurrence(n, x, [x](int64_t k, C value, C before) {
    return (static_cast<C>(k + k + 1) * x * value - static_cast<C>(k) * before) / static_cast<C>(k + 1);
  });
}

template <typename Fn>
Error polynomial(KernelContext& context, const char* op, const Tensor& x, const Tensor& n, Tensor& out, const Fn& fn) {
  const ScalarType common = to_floating(result_type({&x, &n}));
  ET_RETURN_IF_ERROR(check_can_cast(op, common, out.scalar_type()));
  return dispatch_float(common, [&](auto zero) {
    using C = decltype(zero);
    return elementwise<C>(
        context, op, common, out, [&](C at, C degree) { return fn(at, convert<int64_t>(degree)); }, x, n);
  });
}

}  // namespace

#define ET_POLYNOMIAL(name, expression)                                                                  \
  Error special_##name##_out(KernelContext& context, const Tensor& self, const Tensor& n, Tensor& out) { \
    return polynomial(context, "aten::special_" #name, self, n, out, [](auto x, int64_t degree) {        \
      using C = decltype(x);                                                                             \
      return static_cast<C>(expression);                                                                 \
    });                                                                                                  \
  }

ET_POLYNOMIAL(chebyshev_polynomial_t, chebyshev_t(x, degree))
ET_POLYNOMIAL(chebyshev_polynomial_u, chebyshev_u(x, degree))
ET_POLYNOMIAL(chebyshev_polynomial_v, chebyshev_v(x, degree))
ET_POLYNOMIAL(chebyshev_polynomial_w, chebyshev_w(x, degree))
ET_POLYNOMIAL(hermite_polynomial_h, hermite_h(x, degree))
ET_POLYNOMIAL(hermite_polynomial_he, hermite_he(x, degree))
ET_POLYNOMIAL(laguerre_polynomial_l, laguerre_l(x, degree))
ET_POLYNOMIAL(legendre_polynomial_p, legendre_p(x, degree))
ET_POLYNOMIAL(shifted_chebyshev_polynomial_t, chebyshev_t(x + x - C(1), degree))
ET_POLYNOMIAL(shifted_chebyshev_polynomial_u, chebyshev_u(x + x - C(1), degree))
ET_POLYNOMIAL(shifted_chebyshev_polynomial_v, chebyshev_v(x + x - C(1), degree))
ET_POLYNOMIAL(shifted_chebyshev_polynomial_w, chebyshev_w(x + x - C(1), degree))

}  // namespace et::kernels::portable
