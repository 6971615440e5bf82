// Eigenvalues and vectors of symmetric matrices: to three diagonals by reflections, then QL steps.
// Source: G. Golub, C. Van Loan, "Matrix Computations", 8.3.1 (Householder's tridiagonalisation).

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/portable/large_matrices.h"
#include "kernels/portable/tridiagonal.h"

namespace et::kernels::portable {
namespace {

double dot_of(const double* x, const double* y, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

void add_scaled(double* y, double factor, const double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] += factor * x[i];
  }
}

// The symmetric a becomes d and e; its row k keeps the vector of reflection k from element k + 1 on, tau its factor.
void to_three_diagonals(const Matrix& a, double* d, double* e, double* tau, double* w) {
  const int64_t n = a.rows;
  for (int64_t k = 0; k < n; ++k) {
    d[k] = a(k, k);
    const int64_t rest = n - k - 1;
    tau[k] = e[k] = 0.0;
    if (rest == 0) {
      break;
    }
    double* const v = a[k] + k + 1;
    const double alpha = v[0];
    const double below = std::sqrt(dot_of(v + 1, v + 1, rest - 1));
    e[k] = alpha;
    v[0] = 1.0;
    if (below == 0.0) {
      continue;
    }
    const double beta = -std::copysign(std::sqrt(alpha * alpha + below * below), alpha);
    for (int64_t i = 1; i < rest; ++i) {
      v[i] /= alpha - beta;
    }
    e[k] = beta;
    tau[k] = (beta - alpha) / beta;
    for (int64_t i = 0; i < rest; ++i) {
      w[i] = tau[k] * dot_of(a[k + 1 + i] + k + 1, v, rest);
    }
    add_scaled(w, -0.5 * tau[k] * dot_of(w, v, rest), v, rest);
    for (int64_t i = 0; i < rest; ++i) {
      double* const row = a[k + 1 + i] + k + 1;
      for (int64_t j = 0; j < rest; ++j) {
        row[j] -= v[i] * w[j] + w[i] * v[j];
      }
    }
  }
}

// The rows of q become the columns of the reflections' product.
void accumulate(const Matrix& a, const double* tau, const Matrix& q) {
  const int64_t n = a.rows;
  set_identity(q);
  for (int64_t k = n - 2; k >= 0; --k) {
    const double* const v = a[k] + k + 1;
    for (int64_t r = k + 1; tau[k] != 0.0 && r < n; ++r) {
      double* const row = q[r] + k + 1;
      add_scaled(row, -tau[k] * dot_of(row, v, n - k - 1), v, n - k - 1);
    }
  }
}

}  // namespace

Error symmetric_eigen(MatrixWork& work, const Matrix& a, double* values, const Matrix& v, const Matrix& rows) {
  const int64_t n = a.rows;
  if (!std::all_of(a.data, a.data + n * n, [](double x) { return std::isfinite(x); })) {
    std::fill_n(values, n, std::numeric_limits<double>::quiet_NaN());
    std::fill_n(v.data, v.rows * v.cols, std::numeric_limits<double>::quiet_NaN());
    return Error::Ok;
  }
  const int exponent = normalise(a);
  ET_TRY(double* numbers, work.numbers(5 * n));
  double *const e = numbers, *const tau = numbers + n, *const c = numbers + 2 * n, *const s = numbers + 3 * n;
  const bool wanted = v.data != nullptr;
  const LargeMatrices* const methods = work.methods_for(n);
  if (methods != nullptr) {
    ET_RETURN_IF_ERROR(methods->symmetric_eigen(work, a, values, e, c, s, rows));
  } else {
    to_three_diagonals(a, values, e, tau, c);
    if (wanted) {
      accumulate(a, tau, rows);
    }
    const auto rotate = [&](int64_t first, int64_t count, const double* cosines, const double* sines, bool downward) {
      for (int64_t step = 0; wanted && step < count; ++step) {
        const int64_t k = downward ? step : count - 1 - step;
        rotate_rows(rows, first + k, first + k + 1, {cosines[k], -sines[k]});
      }
      return !work.context().cancelled();
    };
    const bool is_done = diagonalise(values, e, n, std::numeric_limits<double>::epsilon(), c, s, rotate);
    ET_CHECK_OR_RETURN(!work.context().cancelled(), Cancelled, "eigenvalues: cancelled");
    ET_CHECK_OR_RETURN(is_done, InvalidState, "eigenvalues: the iteration does not converge");
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t best = std::min_element(values + i, values + n) - values;
    if (best != i) {
      std::swap(values[i], values[best]);
      if (wanted) {
        std::swap_ranges(rows[i], rows[i] + n, rows[best]);
      }
    }
    values[i] = std::ldexp(values[i], exponent);
  }
  if (wanted) {
    transpose_matrix(rows, v);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
