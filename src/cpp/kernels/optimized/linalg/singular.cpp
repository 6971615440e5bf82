// Singular values and vectors: panels of reflections from both sides to two diagonals, and many steps' rotations at a
// time. Sources: J. Dongarra, D. Sorensen, S. Hammarling, "Block reduction of matrices to condensed forms for
// eigenvalue computations", 1989; G. Golub, C. Van Loan, "Matrix Computations", 5.4.8 and 8.6.2.

#include <limits>

#include "kernels/optimized/linalg/dense.h"
#include "kernels/optimized/linalg/rotations.h"
#include "kernels/portable/bidiagonal.h"

namespace et::kernels::optimized::linalg {
namespace {

/// The rest of the matrix is a - lefts' transpose times rights, rows u, x and y, v by turns, until a panel's end.
template <typename T>
struct TwoSided {
  Dense<T> a, lefts, rights;
  T* column;
  double *d, *e;
  T *left_tau, *right_tau;

  /// y -= the sum of rows of `from`, beginning at their element `at`, times `by`.
  static void take_off(const MatrixLines<T>& lines, T* y, const Dense<T>& from, int64_t at, T* by, int64_t count,
                       int64_t n) {
    for (int64_t i = 0; i < count; ++i) {
      by[i] = -by[i];
    }
    lines.add(y, from.data + at, from.stride, by, count, n);
  }

  void reduce_column(const MatrixLines<T>& lines, int64_t k, int64_t p) {
    const int64_t m = a.rows, n = a.cols, below = m - k, rest = n - k - 1;
    T factors[2 * kPanelWidth + 1];
    for (int64_t i = k; i < m; ++i) {
      column[i] = a(i, k);
    }
    for (int64_t i = 0; i < 2 * p; ++i) {
      factors[i] = rights(i, k);
    }
    take_off(lines, column + k, lefts, k, factors, 2 * p, below);
    T *const u = lefts[2 * p], *const x = lefts[2 * p + 1], *const y = rights[2 * p], *const v = rights[2 * p + 1];
    std::copy(column + k, column + m, u + k);
    T beta;
    left_tau[k] = make_reflector(lines, u + k, below, &beta);
    d[k] = static_cast<double>(beta);
    for (int64_t i = k; i < m; ++i) {
      a(i, k) = u[i];
    }
    if (rest == 0) {
      return;
    }
    T* const to = y + k + 1;
    std::fill_n(to, rest, T(0));
    lines.add(to, a[k] + k + 1, a.stride, u + k, below, rest);
    lines.dot(lefts.data + k, lefts.stride, 2 * p, u + k, below, factors);
    take_off(lines, to, rights, k + 1, factors, 2 * p, rest);
    for (int64_t j = 0; j < rest; ++j) {
      to[j] *= left_tau[k];
    }
    std::copy_n(a[k] + k + 1, rest, v + k + 1);
    for (int64_t i = 0; i <= 2 * p; ++i) {
      factors[i] = lefts(i, k);
    }
    take_off(lines, v + k + 1, rights, k + 1, factors, 2 * p + 1, rest);
    right_tau[k] = make_reflector(lines, v + k + 1, rest, &beta);
    e[k] = static_cast<double>(beta);
    std::copy_n(v + k + 1, rest, a[k] + k + 1);
    x[k] = T(0);
    T* const sums = x + k + 1;
    if (below == 1) {
      return;
    }
    lines.dot(a[k + 1] + k + 1, a.stride, below - 1, v + k + 1, rest, sums);
    lines.dot(rights.data + k + 1, rights.stride, 2 * p + 1, v + k + 1, rest, factors);
    take_off(lines, sums, lefts, k + 1, factors, 2 * p + 1, below - 1);
    for (int64_t i = 0; i + 1 < below; ++i) {
      sums[i] *= right_tau[k];
    }
  }
};

template <typename T>
Error reduce_to_two_diagonals(DenseWork<T>& work, const Dense<T>& a, double* d, double* e, T* left_tau, T* right_tau) {
  const int64_t m = a.rows, n = a.cols;
  TwoSided<T> job{a, {}, {}, nullptr, d, e, left_tau, right_tau};
  ET_TRY(job.lefts, work.matrix(2 * kPanelWidth, m));
  ET_TRY(job.rights, work.matrix(2 * kPanelWidth, n));
  ET_TRY(job.column, work.vector(m));
  for (int64_t start = 0; start < n; start += kPanelWidth) {
    const int64_t count = std::min(kPanelWidth, n - start), next = start + count;
    for (int64_t p = 0; p < count; ++p) {
      ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "singular values: cancelled");
      job.reduce_column(work.lines, start + p, p);
    }
    if (next < n) {
      ET_RETURN_IF_ERROR(work.subtract(transposed(job.lefts.block(0, next, 2 * count, m - next)),
                                       job.rights.block(0, next, 2 * count, n - next),
                                       a.block(next, next, m - next, n - next)));
    }
  }
  return Error::Ok;
}

/// The rows of `to` become the first columns of the product of reflections.
template <typename T>
Error accumulate(DenseWork<T>& work, const DenseOperand<T>& vectors, int64_t below, const T* tau, int64_t k,
                 const Dense<T>& q, const Dense<T>& to) {
  for (int64_t i = 0; i < q.rows; ++i) {
    std::fill_n(q[i], q.cols, T(0));
    if (i < q.cols) {
      q(i, i) = T(1);
    }
  }
  ET_RETURN_IF_ERROR(apply_reflectors(work, vectors, below, tau, k, q, false, true));
  transpose_dense(q, to);
  return Error::Ok;
}

/// What Bidiagonal does to the vectors.
template <typename T>
struct KeptRows {
  DenseWork<T>& work;
  bool wanted;
  Dense<T> matrices[2];
  Rotations<T> rotations[2];

  void rotate(int side, int64_t first, int64_t count, const double* c, const double* s) {
    if (wanted) {
      rotations[side].append(work, first, count, c, s, true);
    }
  }
  void turn(int side, int64_t i, int64_t j, double c, double s) {
    if (wanted) {
      rotations[side].flush(work);
      const T cosine = static_cast<T>(c), sine = static_cast<T>(s);
      const Dense<T>& matrix = matrices[side];
      work.lines.rotate(matrix[i], (j - i) * matrix.stride, matrix.cols, &cosine, &sine, 1, true);
    }
  }
};

}  // namespace

template <typename T>
Result<bool> singular_values_of(DenseWork<T>& work, const Dense<T>& a, double* d, double* e, double* angles,
                                const Dense<T>* ut, const Dense<T>* vt) {
  const int64_t m = a.rows, n = a.cols;
  ET_TRY(T* const left_tau, work.vector(n));
  ET_TRY(T* const right_tau, work.vector(n));
  ET_RETURN_IF_ERROR(reduce_to_two_diagonals(work, a, d, e, left_tau, right_tau));
  KeptRows<T> rows{work, ut != nullptr, {}, {}};
  if (ut != nullptr) {
    rows.matrices[0] = *ut;
    rows.matrices[1] = *vt;
    ET_TRY(T* const memory, work.vector(std::max(m * ut->rows, n * n)));
    ET_RETURN_IF_ERROR(accumulate(work, DenseOperand<T>(a), 0, left_tau, n, {memory, m, ut->rows, ut->rows}, *ut));
    ET_RETURN_IF_ERROR(
        accumulate(work, DenseOperand<T>(a.data, n, n, 1, a.stride), 1, right_tau, n - 1, {memory, n, n, n}, *vt));
    for (int side = 0; side < 2; ++side) {
      ET_TRY(rows.rotations[side], Rotations<T>::make(work, rows.matrices[side]));
    }
  }
  portable::Bidiagonal<KeptRows<T>> bidiagonal{d,
                                               e,
                                               n,
                                               static_cast<double>(std::numeric_limits<T>::epsilon()),
                                               {angles, angles + n, angles + 2 * n, angles + 3 * n},
                                               rows};
  const bool is_done = bidiagonal.diagonalise([&] { return work.cancelled(); });
  ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "singular values: cancelled");
  if (rows.wanted) {
    rows.rotations[0].flush(work);
    rows.rotations[1].flush(work);
  }
  return is_done;
}

#define ET_INSTANTIATE(T)                                                                               \
  template Result<bool> singular_values_of(DenseWork<T>& work, const Dense<T>& a, double* d, double* e, \
                                           double* angles, const Dense<T>* ut, const Dense<T>* vt);
ET_INSTANTIATE(float)
ET_INSTANTIATE(double)
#undef ET_INSTANTIATE

}  // namespace et::kernels::optimized::linalg
