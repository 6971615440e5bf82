// Singular values of matrices that Jacobi's rotations take too long for: to two diagonals by reflections, then QR steps with shifts.
// Source: G. Golub, C. Van Loan, "Matrix Computations", 5.4.8 (Householder's bidiagonalisation) and 8.6.2 (Golub-Kahan steps).

#include <algorithm>
#include <cmath>

#include "kernels/portable/dot.h"
#include "kernels/portable/matrix.h"

namespace et::kernels::portable {
namespace {

constexpr double kEpsilon = 2.220446049250313e-16;

double dot_rows(const double* x, const double* y, int64_t n) { return dot<double>(x, 1, y, 1, n); }

void add_scaled(double* y, double factor, const double* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] += factor * x[i];
  }
}

// y += factor x; returns the sum of y[i] z[i] afterwards.
double add_scaled_dot(double* y, double factor, const double* x, const double* z, int64_t n) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t k = 0; k < 8; ++k) {
      y[i + k] += factor * x[i + k];
      sums[k] += y[i + k] * z[i + k];
    }
  }
  for (; i < n; ++i) {
    y[i] += factor * x[i];
    sums[i & 7] += y[i] * z[i];
  }
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// x becomes the v of the reflection 1 - tau v vᵀ that takes it to (beta, 0, …); tau 0: it is so already.
struct Reflection {
  double beta, tau;
};
Reflection reflect(double* x, int64_t n) {
  const double below = dot_rows(x + 1, x + 1, n - 1);
  const double alpha = x[0];
  constexpr double kFew = 1e-280;  // squares below it have lost digits
  if (alpha * alpha + below < kFew) {
    if (const int exponent = normalise(Matrix{x, 1, n}); exponent != 0) {
      const Reflection scaled = reflect(x, n);
      return {std::ldexp(scaled.beta, exponent), scaled.tau};
    }
  }
  x[0] = 1.0;
  if (below == 0.0) {
    return {alpha, 0.0};
  }
  const double beta = -std::copysign(std::sqrt(alpha * alpha + below), alpha);
  for (int64_t i = 1; i < n; ++i) {
    x[i] /= alpha - beta;
  }
  return {beta, (beta - alpha) / beta};
}

// The rotation that takes (x, y) to (length, 0): c x + s y, c y - s x.
struct Turn {
  double c = 1.0, s = 0.0, length;
  Turn(double x, double y) : length(std::sqrt(x * x + y * y)) {
    if (length > 1e-150) {
      c = x / length;
      s = y / length;
      return;
    }
    length = std::hypot(x, y);
    if (length > 0.0) {
      c = x / length;
      s = y / length;
    }
  }
};

// a [m, n], m >= n, of elements of size 1 at most.
struct Decomposition {
  Matrix a;
  double *d, *e;         // the diagonal, and the one above
  double *left, *right;  // factors tau of the reflections
  Matrix lefts, rights;  // their vectors, one a row, from its first element on; no rows: vectors are not wanted
  Matrix ut, vt;         // vectors as rows; no rows: not wanted
  double* row;           // [max(m, n)] scratch

  Error to_two_diagonals(KernelContext& context) {
    const int64_t m = a.rows, n = a.cols;
    for (int64_t k = 0; k < n; ++k) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "singular values: cancelled");
      double* const v = lefts[lefts.rows > 0 ? k : 0];
      for (int64_t i = k; i < m; ++i) {
        v[i] = a(i, k);
      }
      const Reflection r = reflect(v + k, m - k);
      d[k] = r.beta;
      left[k] = r.tau;
      const int64_t rest = n - k - 1;
      if (rest == 0) {
        break;
      }
      double* const sums = row + k + 1;  // tau vᵀ a
      sum_rows(v, k, sums);
      for (int64_t j = 0; j < rest; ++j) {
        sums[j] *= -r.tau;
      }
      double* const x = rights[rights.rows > 0 ? k : 0] + k + 1;
      std::copy_n(a[k] + k + 1, rest, x);
      add_scaled(x, 1.0, sums, rest);
      const Reflection q = reflect(x, rest);
      e[k] = q.beta;
      right[k] = q.tau;
      for (int64_t i = k + 1; i < m; ++i) {  // both reflections while a row is near
        double* const to = a[i] + k + 1;
        add_scaled(to, -q.tau * add_scaled_dot(to, v[i], sums, x, rest), x, rest);
      }
    }
    return Error::Ok;
  }

  // Rows of `q` become those of the product of the reflections of `vectors`, which begin at element k + offset.
  static void accumulate(const Matrix& vectors, const double* tau, int64_t count, int64_t offset, const Matrix& q) {
    set_identity(q);
    for (int64_t k = count - 1; k >= 0; --k) {
      const int64_t first = k + offset;
      const double* const v = vectors[k] + first;
      for (int64_t r = first; tau[k] != 0.0 && r < q.rows; ++r) {
        add_scaled(q[r] + first, -tau[k] * dot_rows(q[r] + first, v, q.cols - first), v, q.cols - first);
      }
    }
  }

  // False where it does not converge.
  Result<bool> to_one_diagonal(KernelContext& context) {
    const int64_t n = a.cols;
    double largest = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      largest = std::max({largest, std::fabs(d[i]), i + 1 < n ? std::fabs(e[i]) : 0.0});
    }
    int64_t hi = n - 1;
    for (int64_t steps = 0; hi > 0; ++steps) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "singular values: cancelled");
      if (steps > 60 * n) {
        return false;
      }
      int64_t lo = hi;  // rows lo … hi hang together
      while (lo > 0 && std::fabs(e[lo - 1]) > kEpsilon * (std::fabs(d[lo - 1]) + std::fabs(d[lo])) &&
             std::fabs(e[lo - 1]) > 0.01 * kEpsilon * kEpsilon * largest) {
        --lo;
      }
      if (lo > 0) {
        e[lo - 1] = 0.0;
      }
      if (lo == hi) {
        --hi;
        continue;
      }
      const double* const zero =
          std::find_if(d + lo, d + hi + 1, [&](double x) { return std::fabs(x) <= 0.01 * kEpsilon * largest; });
      if (zero == d + hi + 1) {
        step(lo, hi);
      } else if (zero == d + hi) {
        clear_column(lo, hi);
      } else {
        clear_row(zero - d, hi);
      }
    }
    return true;
  }

  void sort() {
    const int64_t n = a.cols;
    for (int64_t i = 0; i < n; ++i) {
      if (std::signbit(d[i])) {
        d[i] = -d[i];
        for (int64_t j = 0; vt.rows > 0 && j < n; ++j) {
          vt(i, j) = -vt(i, j);
        }
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const int64_t best = std::max_element(d + i, d + n) - d;
      if (best == i) {
        continue;
      }
      std::swap(d[i], d[best]);
      if (vt.rows > 0) {
        std::swap_ranges(vt[i], vt[i] + vt.cols, vt[best]);
        std::swap_ranges(ut[i], ut[i] + ut.cols, ut[best]);
      }
    }
  }

 private:
  // sums[j] = the sum over i >= k of v[i] a(i, k + 1 + j)
  void sum_rows(const double* v, int64_t k, double* sums) const {
    const int64_t rest = a.cols - k - 1;
    std::fill_n(sums, rest, 0.0);
    int64_t i = k;
    for (; i + 4 <= a.rows; i += 4) {
      const double f0 = v[i], f1 = v[i + 1], f2 = v[i + 2], f3 = v[i + 3];
      const double* const from = a[i] + k + 1;
      const int64_t n = a.cols;
      for (int64_t j = 0; j < rest; ++j) {
        sums[j] += (f0 * from[j] + f1 * from[n + j]) + (f2 * from[2 * n + j] + f3 * from[3 * n + j]);
      }
    }
    for (; i < a.rows; ++i) {
      add_scaled(sums, v[i], a[i] + k + 1, rest);
    }
  }

  void turn_left(int64_t i, int64_t j, const Turn& turn) const {
    if (ut.rows > 0) {
      rotate_rows(ut, i, j, {turn.c, -turn.s});
    }
  }
  void turn_right(int64_t i, int64_t j, const Turn& turn) const {
    if (vt.rows > 0) {
      rotate_rows(vt, i, j, {turn.c, -turn.s});
    }
  }

  // d[hi] is 0: the element above it goes up its column.
  void clear_column(int64_t lo, int64_t hi) const {
    d[hi] = 0.0;
    double f = e[hi - 1];
    e[hi - 1] = 0.0;
    for (int64_t j = hi - 1; j >= lo; --j) {
      const Turn turn(d[j], f);
      d[j] = turn.length;
      if (j > lo) {
        f = -turn.s * e[j - 1];
        e[j - 1] *= turn.c;
      }
      turn_right(j, hi, turn);
    }
  }

  // d[i] is 0: the element beside it goes along its row.
  void clear_row(int64_t i, int64_t hi) const {
    d[i] = 0.0;
    double f = e[i];
    e[i] = 0.0;
    for (int64_t j = i + 1; j <= hi; ++j) {
      const Turn turn(d[j], f);
      d[j] = turn.length;
      if (j < hi) {
        f = -turn.s * e[j];
        e[j] *= turn.c;
      }
      turn_left(j, i, turn);
    }
  }

  void step(int64_t lo, int64_t hi) const {
    const double above = hi - 1 > lo ? e[hi - 2] : 0.0;
    const double t11 = d[hi - 1] * d[hi - 1] + above * above;
    const double t12 = d[hi - 1] * e[hi - 1];
    const double t22 = d[hi] * d[hi] + e[hi - 1] * e[hi - 1];
    const double half = 0.5 * (t11 - t22);
    const double around = half + std::copysign(std::sqrt(half * half + t12 * t12), half);
    double y = d[lo] * d[lo] - (around == 0.0 ? t22 : t22 - t12 * t12 / around);
    double z = d[lo] * e[lo];
    for (int64_t k = lo; k < hi; ++k) {
      const Turn right_turn(y, z);
      if (k > lo) {
        e[k - 1] = right_turn.length;
      }
      y = right_turn.c * d[k] + right_turn.s * e[k];
      e[k] = right_turn.c * e[k] - right_turn.s * d[k];
      z = right_turn.s * d[k + 1];
      d[k + 1] *= right_turn.c;
      turn_right(k, k + 1, right_turn);
      const Turn left_turn(y, z);
      d[k] = left_turn.length;
      y = left_turn.c * e[k] + left_turn.s * d[k + 1];
      d[k + 1] = left_turn.c * d[k + 1] - left_turn.s * e[k];
      if (k + 1 < hi) {
        z = left_turn.s * e[k + 1];
        e[k + 1] *= left_turn.c;
      }
      turn_left(k, k + 1, left_turn);
    }
    e[hi - 1] = y;
  }
};

}  // namespace

Result<bool> singular_values_of_large(KernelContext& context, const Matrix& a, double* s, const Matrix& u,
                                      const Matrix& vt) {
  const bool wide = a.rows < a.cols;
  const int64_t n = std::min(a.rows, a.cols);
  const int64_t m = std::max(a.rows, a.cols);
  const bool wanted = u.data != nullptr;
  double* const end = a.data + m * n;
  if (!std::all_of(a.data, end, [](double x) { return std::isfinite(x); }) ||
      std::all_of(a.data, end, [](double x) { return x == 0.0; })) {
    return false;
  }
  Decomposition work;
  ET_TRY(work.a, make_matrix(context, m, n));
  if (wide) {
    transpose_matrix(a, work.a);
  } else {
    copy_matrix(a, work.a);
  }
  const int exponent = normalise(work.a);
  ET_TRY(double* numbers, make_vector(context, 4 * n + m));
  work.d = numbers;
  work.e = numbers + n;
  work.left = numbers + 2 * n;
  work.right = numbers + 3 * n;
  work.row = numbers + 4 * n;
  ET_TRY(work.lefts, make_matrix(context, wanted ? n : 1, m));
  ET_TRY(work.rights, make_matrix(context, wanted ? n : 1, n));
  work.lefts.rows = work.rights.rows = wanted ? n : 0;
  ET_RETURN_IF_ERROR(work.to_two_diagonals(context));
  if (wanted) {
    if (wide) {  // aᵀ = left s rightᵀ, so that the left ones are the rows of vt
      work.ut = vt;
      ET_TRY(work.vt, make_matrix(context, n, n));
    } else {
      ET_TRY(work.ut, make_matrix(context, u.cols, m));
      work.vt = vt;
    }
    Decomposition::accumulate(work.lefts, work.left, n, 0, work.ut);
    Decomposition::accumulate(work.rights, work.right, n - 1, 1, work.vt);
  }
  ET_TRY(const bool is_done, work.to_one_diagonal(context));
  if (!is_done) {
    return false;
  }
  work.sort();
  for (int64_t i = 0; i < n; ++i) {
    s[i] = std::ldexp(work.d[i], exponent);
  }
  if (wanted) {
    transpose_matrix(wide ? work.vt : work.ut, u);
  }
  return true;
}

}  // namespace et::kernels::portable
