// Eigenvalues and vectors of symmetric matrices: panels of reflections to three diagonals, and many steps' rotations at
// a time. Sources: J. Dongarra, D. Sorensen, S. Hammarling, "Block reduction of matrices to condensed forms for
// eigenvalue computations", 1989; G. Golub, C. Van Loan, "Matrix Computations", 8.3.

#include <limits>

#include "kernels/optimized/linalg/dense.h"
#include "kernels/optimized/linalg/rotations.h"
#include "kernels/portable/tridiagonal.h"

namespace et::kernels::optimized::linalg {
namespace {

/// One panel of columns from `start` on; `pairs` gets the rows v and w of a -= v wᵀ + w vᵀ by turns.
template <typename T>
void reduce_panel(const MatrixLines<T>& lines, const Dense<T>& a, int64_t start, int64_t count, const Dense<T>& pairs,
                  T* column, double* d, double* e, T* tau) {
  const int64_t n = a.rows;
  T factors[2 * kPanelWidth];
  for (int64_t p = 0; p < count; ++p) {
    const int64_t k = start + p, rest = n - k - 1;
    for (int64_t i = k; i < n; ++i) {
      column[i] = a(i, k);
    }
    for (int64_t j = 0; j < p; ++j) {
      factors[2 * j] = -pairs(2 * j + 1, k);
      factors[2 * j + 1] = -pairs(2 * j, k);
    }
    lines.add(column + k, pairs.data + k, pairs.stride, factors, 2 * p, n - k);
    d[k] = static_cast<double>(column[k]);
    T *const v = pairs[2 * p], *const w = pairs[2 * p + 1];
    tau[k] = T(0);
    if (rest == 0) {
      break;
    }
    std::fill(v, v + k + 1, T(0));
    std::fill(w, w + k + 1, T(0));
    std::copy(column + k + 1, column + n, v + k + 1);
    T beta;
    tau[k] = make_reflector(lines, v + k + 1, rest, &beta);
    e[k] = static_cast<double>(beta);
    T* const product = w + k + 1;
    lines.symmetric(a[k + 1] + k + 1, a.stride, rest, v + k + 1, product);
    T products[2 * kPanelWidth];
    lines.dot(pairs.data + k + 1, pairs.stride, 2 * p, v + k + 1, rest, products);
    for (int64_t j = 0; j < p; ++j) {
      factors[2 * j] = -products[2 * j + 1];
      factors[2 * j + 1] = -products[2 * j];
    }
    lines.add(product, pairs.data + k + 1, pairs.stride, factors, 2 * p, rest);
    for (int64_t i = 0; i < rest; ++i) {
      product[i] *= tau[k];
    }
    T along;
    lines.dot(product, 0, 1, v + k + 1, rest, &along);
    const T half = T(-0.5) * tau[k] * along;
    lines.add(product, v + k + 1, 0, &half, 1, rest);
  }
  // The rows of the panel keep the reflections' vectors; nothing reads them before the last.
  for (int64_t p = 0; p < count; ++p) {
    std::copy(pairs[2 * p] + start + p + 1, pairs[2 * p] + n, a[start + p] + start + p + 1);
  }
}

}  // namespace

template <typename T>
Error reduce_symmetric(DenseWork<T>& work, const Dense<T>& a, double* d, double* e, T* tau) {
  const int64_t n = a.rows;
  ET_TRY(const Dense<T> pairs, work.matrix(2 * kPanelWidth, n));
  ET_TRY(const Dense<T> turned, work.matrix(2 * kPanelWidth, n));
  ET_TRY(T* const column, work.vector(n));
  for (int64_t start = 0; start < n; start += kPanelWidth) {
    ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "eigenvalues: cancelled");
    const int64_t count = std::min(kPanelWidth, n - start), next = start + count;
    reduce_panel(work.lines, a, start, count, pairs, column, d, e, tau);
    for (int64_t row = 0; row < 2 * count; ++row) {
      std::copy(pairs[row ^ 1] + next, pairs[row ^ 1] + n, turned[row] + next);
    }
    constexpr int64_t kColumns = 192;  // of the rest, of which the lower triangle is wanted
    for (int64_t j = next; j < n; j += kColumns) {
      const int64_t width = std::min(kColumns, n - j), height = n - j;
      ET_RETURN_IF_ERROR(work.subtract(transposed(pairs.block(0, j, 2 * count, height)),
                                       turned.block(0, j, 2 * count, width), a.block(j, j, height, width)));
    }
  }
  return Error::Ok;
}

template <typename T>
Error eigen_of_symmetric(DenseWork<T>& work, const Dense<T>& a, double* d, double* e, double* c, double* s,
                         const Dense<T>* rows) {
  const int64_t n = a.rows;
  ET_TRY(T* const tau, work.vector(n));
  ET_RETURN_IF_ERROR(reduce_symmetric(work, a, d, e, tau));
  Rotations<T> rotations;
  if (rows != nullptr) {
    ET_TRY(const Dense<T> q, work.matrix(n, n));
    for (int64_t i = 0; i < n; ++i) {
      std::fill_n(q[i], n, T(0));
      q(i, i) = T(1);
    }
    const DenseOperand<T> vectors(a.data, n, n, 1, a.stride);
    ET_RETURN_IF_ERROR(apply_reflectors(work, vectors, 1, tau, n - 1, q, false, true));
    transpose_dense(q, *rows);
    ET_TRY(rotations, Rotations<T>::make(work, *rows));
  }
  const auto rotate = [&](int64_t first, int64_t count, const double* cosines, const double* sines, bool downward) {
    if (rows != nullptr) {
      rotations.append(work, first, count, cosines, sines, downward);
    }
    return !work.cancelled();
  };
  const bool is_done = portable::diagonalise(d, e, n, std::numeric_limits<T>::epsilon() / 2, c, s, rotate);
  ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "eigenvalues: cancelled");
  ET_CHECK_OR_RETURN(is_done, InvalidState, "eigenvalues: the iteration does not converge");
  if (rows != nullptr) {
    rotations.flush(work);
  }
  return Error::Ok;
}

#define ET_INSTANTIATE(T)                                                                                              \
  template Error eigen_of_symmetric(DenseWork<T>& work, const Dense<T>& a, double* d, double* e, double* c, double* s, \
                                    const Dense<T>* rows);
ET_INSTANTIATE(float)
ET_INSTANTIATE(double)
#undef ET_INSTANTIATE

}  // namespace et::kernels::optimized::linalg
