// Singular values by rotations of two columns at a time.
// Source: G. Golub, C. Van Loan, "Matrix Computations", 8.6.3 (one-sided Jacobi).

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/portable/matrix.h"

namespace et::kernels::portable {

void rotate_rows(const Matrix& a, int64_t p, int64_t q, Rotation r) {
  double* const upper = a[p];
  double* const lower = a[q];
  for (int64_t j = 0; j < a.cols; ++j) {
    const double x = upper[j];
    const double y = lower[j];
    upper[j] = r.c * x - r.s * y;
    lower[j] = r.s * x + r.c * y;
  }
}

namespace {

constexpr int kMostSweeps = 60;
constexpr double kSmall = 1e-15;

// The rotation that makes [[app, apq], [apq, aqq]] diagonal.
Rotation diagonalising(double app, double apq, double aqq) {
  const double theta = (aqq - app) / (2.0 * apq);
  const double t = std::copysign(1.0, theta) / (std::fabs(theta) + std::hypot(theta, 1.0));
  const double c = 1.0 / std::hypot(t, 1.0);
  return {c, t * c};
}

void rotate_columns(const Matrix& a, int64_t p, int64_t q, Rotation r) {
  for (int64_t i = 0; i < a.rows; ++i) {
    const double x = a(i, p);
    const double y = a(i, q);
    a(i, p) = r.c * x - r.s * y;
    a(i, q) = r.s * x + r.c * y;
  }
}

void swap_columns(const Matrix& a, int64_t p, int64_t q) {
  for (int64_t i = 0; i < a.rows; ++i) {
    std::swap(a(i, p), a(i, q));
  }
}

// Makes the columns of q from `from` on orthonormal to all before: unit vectors, the part that lies in the others taken
// off.
void complete_basis(const Matrix& q, int64_t from) {
  for (int64_t j = from; j < q.cols; ++j) {
    double best_norm = -1.0;
    int64_t best = 0;
    for (int64_t unit = 0; unit < q.rows; ++unit) {  // the unit vector that the columns so far cover least
      double covered = 0.0;
      for (int64_t k = 0; k < j; ++k) {
        covered += q(unit, k) * q(unit, k);
      }
      if (1.0 - covered > best_norm) {
        best_norm = 1.0 - covered;
        best = unit;
      }
    }
    for (int64_t i = 0; i < q.rows; ++i) {
      q(i, j) = i == best ? 1.0 : 0.0;
    }
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t k = 0; k < j; ++k) {
        double dot = 0.0;
        for (int64_t i = 0; i < q.rows; ++i) {
          dot += q(i, k) * q(i, j);
        }
        for (int64_t i = 0; i < q.rows; ++i) {
          q(i, j) -= dot * q(i, k);
        }
      }
    }
    double norm = 0.0;
    for (int64_t i = 0; i < q.rows; ++i) {
      norm = std::hypot(norm, q(i, j));
    }
    for (int64_t i = 0; i < q.rows; ++i) {
      q(i, j) /= norm;
    }
  }
}

// Turns columns of a (m >= n) until they are orthogonal; v collects the rotations.
Error orthogonalise_columns(KernelContext& context, const Matrix& a, const Matrix& v) {
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < a.cols; ++p) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "singular values: cancelled");
      for (int64_t q = p + 1; q < a.cols; ++q) {
        double pp = 0.0, pq = 0.0, qq = 0.0;
        for (int64_t i = 0; i < a.rows; ++i) {
          pp += a(i, p) * a(i, p);
          pq += a(i, p) * a(i, q);
          qq += a(i, q) * a(i, q);
        }
        if (!(std::fabs(pq) > kSmall * std::sqrt(pp * qq)) || std::fabs(pq) < 1e-300) {
          continue;
        }
        const Rotation r = diagonalising(pp, pq, qq);
        rotate_columns(a, p, q, r);
        rotate_columns(v, p, q, r);
        rotated = true;
      }
    }
    if (!rotated) {
      break;
    }
  }
  return Error::Ok;
}

}  // namespace

Error singular_values(MatrixWork& work, const Matrix& a, double* s, const Matrix& u, const Matrix& vt) {
  KernelContext& context = work.context();
  const bool wide = a.rows < a.cols;
  const int64_t n = std::min(a.rows, a.cols);
  const int64_t m = std::max(a.rows, a.cols);
  if (!std::all_of(a.data, a.data + m * n, [](double x) { return std::isfinite(x); })) {
    std::fill_n(s, n, std::numeric_limits<double>::quiet_NaN());
    std::fill_n(u.data, u.rows * u.cols, std::numeric_limits<double>::quiet_NaN());
    std::fill_n(vt.data, vt.rows * vt.cols, std::numeric_limits<double>::quiet_NaN());
    return Error::Ok;
  }
  constexpr int64_t kLarge = 8;
  if (n >= kLarge) {
    ET_TRY(const bool is_done, singular_values_of_large(work, a, s, u, vt));
    if (is_done) {
      return Error::Ok;
    }
  }
  ET_TRY(Matrix w, make_matrix(context, m, n));
  ET_TRY(Matrix v, make_matrix(context, n, n));
  if (wide) {
    transpose_matrix(a, w);
  } else {
    copy_matrix(a, w);
  }
  const int exponent = normalise(w);  // squares and their products stay numbers
  set_identity(v);
  ET_RETURN_IF_ERROR(orthogonalise_columns(context, w, v));
  for (int64_t j = 0; j < n; ++j) {
    s[j] = 0.0;
    for (int64_t i = 0; i < m; ++i) {
      s[j] = std::hypot(s[j], w(i, j));
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    const int64_t best = std::max_element(s + j, s + n) - s;
    std::swap(s[j], s[best]);
    swap_columns(w, j, best);
    swap_columns(v, j, best);
  }
  const auto restore = [&] { std::for_each(s, s + n, [exponent](double& x) { x = std::ldexp(x, exponent); }); };
  if (u.data == nullptr) {
    restore();
    return Error::Ok;
  }
  // Left vectors are the columns, made unit length; where the matrix has no such column any orthonormal ones do.
  const int64_t wanted = wide ? vt.rows : u.cols;
  ET_TRY(Matrix left, make_matrix(context, m, wanted));
  int64_t rank = 0;
  while (rank < n && s[rank] > 0.0 && s[rank] > s[0] * 1e-14) {
    for (int64_t i = 0; i < m; ++i) {
      left(i, rank) = w(i, rank) / s[rank];
    }
    ++rank;
  }
  complete_basis(left, rank);
  if (wide) {  // aᵀ = left s vᵀ
    transpose_matrix(left, vt);
    copy_matrix(v, u);
  } else {
    copy_matrix(left, u);
    transpose_matrix(v, vt);
  }
  restore();
  return Error::Ok;
}

}  // namespace et::kernels::portable
