// Singular values of matrices that Jacobi's rotations take too long for: to two diagonals by reflections, then QR steps
// with shifts. Source: G. Golub, C. Van Loan, "Matrix Computations", 5.4.8 (Householder's bidiagonalisation) and 8.6.2
// (Golub-Kahan steps).

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/portable/bidiagonal.h"
#include "kernels/portable/dot.h"
#include "kernels/portable/large_matrices.h"

namespace et::kernels::portable {
namespace {

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

// What the steps do to the vectors, which are rows of matrices; no rows: not wanted.
struct PlainRows {
  Matrix matrices[2];

  void rotate(int side, int64_t first, int64_t count, const double* c, const double* s) const {
    for (int64_t k = 0; k < count && matrices[side].rows > 0; ++k) {
      rotate_rows(matrices[side], first + k, first + k + 1, {c[k], -s[k]});
    }
  }
  void turn(int side, int64_t i, int64_t j, double c, double s) const {
    if (matrices[side].rows > 0) {
      rotate_rows(matrices[side], i, j, {c, -s});
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

  // False where it does not converge. `angles`: [4 n] scratch.
  Result<bool> to_one_diagonal(KernelContext& context, double* angles) const {
    const int64_t n = a.cols;
    const PlainRows rows{{ut, vt}};
    Bidiagonal<const PlainRows> bidiagonal{
        d, e, n, std::numeric_limits<double>::epsilon(), {angles, angles + n, angles + 2 * n, angles + 3 * n}, rows};
    const bool is_done = bidiagonal.diagonalise([&] { return context.cancelled(); });
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "singular values: cancelled");
    return is_done;
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
};

}  // namespace

Result<bool> singular_values_of_large(MatrixWork& memory, const Matrix& a, double* s, const Matrix& u,
                                      const Matrix& vt) {
  KernelContext& context = memory.context();
  const bool wide = a.rows < a.cols;
  const int64_t n = std::min(a.rows, a.cols);
  const int64_t m = std::max(a.rows, a.cols);
  const bool wanted = u.data != nullptr;
  double* const end = a.data + m * n;
  if (!std::all_of(a.data, end, [](double x) { return std::isfinite(x); }) ||
      std::all_of(a.data, end, [](double x) { return x == 0.0; })) {
    return false;
  }
  const LargeMatrices* const methods = memory.methods_for(n);
  const bool keeps = wanted && methods == nullptr;  // the reflections, apart from a
  const int64_t left_rows = wide ? vt.rows : u.cols;
  ET_TRY(double* numbers,
         memory.numbers(m * n + 9 * n + m + (keeps ? n * (m + n) : m + n) + (wanted ? m * left_rows + n * n : 0)));
  const auto take = [&numbers](int64_t rows, int64_t cols) {
    const Matrix taken{numbers, rows, cols};
    numbers += rows * cols;
    return taken;
  };
  Decomposition work;
  work.a = take(m, n);
  if (wide) {
    transpose_matrix(a, work.a);
  } else {
    copy_matrix(a, work.a);
  }
  const int exponent = normalise(work.a);
  work.d = take(1, n).data;
  work.e = take(1, n).data;
  work.left = take(1, n).data;
  work.right = take(1, n).data;
  double* const angles = take(4, n).data;
  work.row = take(1, m).data;
  work.lefts = take(keeps ? n : 1, m);
  work.rights = take(keeps ? n : 1, n);
  work.lefts.rows = work.rights.rows = keeps ? n : 0;
  if (wanted) {
    if (wide) {  // aᵀ = left s rightᵀ, so that the left ones are the rows of vt
      work.ut = vt;
      work.vt = take(n, n);
    } else {
      work.ut = take(left_rows, m);
      work.vt = vt;
    }
  }
  bool is_done = false;
  if (methods != nullptr) {
    ET_TRY(is_done, methods->singular_values(memory, work.a, work.d, work.e, angles, work.ut, work.vt));
  } else {
    ET_RETURN_IF_ERROR(work.to_two_diagonals(context));
    if (wanted) {
      Decomposition::accumulate(work.lefts, work.left, n, 0, work.ut);
      Decomposition::accumulate(work.rights, work.right, n - 1, 1, work.vt);
    }
    ET_TRY(is_done, work.to_one_diagonal(context, angles));
  }
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
