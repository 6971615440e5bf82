// Orthogonal factors by panels of Householder reflectors, which reach the rest of the matrix together as 1 - V T Vᵀ.
// Source: R. Schreiber, C. Van Loan, "A storage-efficient WY representation for products of Householder
// transformations", 1989; G. Golub, C. Van Loan, "Matrix Computations", 5.1.6 and 5.2.3.

#include "base/rounding.h"
#include "kernels/optimized/linalg/dense.h"

namespace et::kernels::optimized::linalg {
namespace {

/// What a block of reflectors needs: their vectors as rows, T, and two matrices of kPanelWidth rows.
template <typename T>
struct Reflectors {
  Dense<T> vectors;                    // [kPanelWidth, rows], 1 on the diagonal and 0 before it
  Dense<T> triangle, inner;            // [kPanelWidth, kPanelWidth]
  Dense<T> products, turned_products;  // [kPanelWidth, cols]

  static Result<Reflectors> make(DenseWork<T>& work, int64_t rows, int64_t cols) {
    Reflectors made;
    ET_TRY(made.vectors, work.matrix(kPanelWidth, rows));
    ET_TRY(made.triangle, work.matrix(kPanelWidth, kPanelWidth));
    ET_TRY(made.inner, work.matrix(kPanelWidth, kPanelWidth));
    ET_TRY(made.products, work.matrix(kPanelWidth, cols));
    ET_TRY(made.turned_products, work.matrix(kPanelWidth, cols));
    return made;
  }

  /// The first `count` rows of `rows` elements.
  Dense<T> used(int64_t count, int64_t rows) const { return {vectors.data, count, rows, vectors.stride}; }

  /// T of 1 - V T Vᵀ = H₁ … H_count, upper triangular.
  Error make_triangle(DenseWork<T>& work, const T* tau, int64_t count, int64_t rows) {
    const Dense<T> v = used(count, rows), t = triangle.block(0, 0, count, count), vv = inner.block(0, 0, count, count);
    for (int64_t k = 1; k < count; ++k) {
      work.lines.dot(v.data + k, v.stride, k, v[k] + k, rows - k, vv[k]);
    }
    for (int64_t k = 0; k < count; ++k) {
      std::fill_n(t[k], count, T(0));
    }
    for (int64_t k = 0; k < count; ++k) {
      t(k, k) = tau[k];
      for (int64_t i = 0; i < k; ++i) {
        T sum = T(0);
        for (int64_t j = i; j < k; ++j) {
          sum += t(i, j) * vv(k, j);
        }
        t(i, k) = -tau[k] * sum;
      }
    }
    return Error::Ok;
  }

  /// c = (1 - V T Vᵀ) c, or with Tᵀ.
  Error apply(DenseWork<T>& work, int64_t count, const Dense<T>& c, bool reversed) {
    if (c.cols == 0 || count == 0) {
      return Error::Ok;
    }
    const Dense<T> v = used(count, c.rows), t = triangle.block(0, 0, count, count);
    const Dense<T> first{products.data, count, c.cols, c.cols}, second{turned_products.data, count, c.cols, c.cols};
    ET_RETURN_IF_ERROR(work.multiply(v, c, first));
    ET_RETURN_IF_ERROR(work.multiply(reversed ? transposed(t) : DenseOperand<T>(t), first, second));
    return work.subtract(transposed(v), second, c);
  }
};

/// x becomes the v of the reflector that takes it to (beta, 0, …); returns tau.
template <typename T>
T reflect(const MatrixLines<T>& lines, T* x, int64_t n, T* beta) {
  const T alpha = x[0];
  *beta = alpha;
  T largest = T(0);
  for (int64_t i = 1; i < n; ++i) {
    largest = std::fabs(x[i]) > largest || x[i] != x[i] ? std::fabs(x[i]) : largest;
  }
  x[0] = T(1);
  if (largest == T(0)) {
    return T(0);
  }
  int exponent = 0;
  std::frexp(std::max(std::fabs(largest), std::fabs(alpha)), &exponent);
  constexpr bool kIsFloat = sizeof(T) == sizeof(float);
  constexpr int kRoom = kIsFloat ? 40 : 400;    // squares and their sums are numbers, and not denormal ones
  constexpr int kMost = kIsFloat ? 120 : 1000;  // powers of two that a number has, with room for the least one's
  T scale = T(1), size = alpha;
  if (exponent > kRoom || exponent < -kRoom) {
    scale = std::ldexp(T(1), std::min(-exponent, kMost));
    size *= scale;
    for (int64_t i = 1; i < n; ++i) {
      x[i] *= scale;
    }
  }
  T square = T(0);
  lines.dot(x + 1, n, 1, x + 1, n - 1, &square);
  const T length = -std::copysign(std::sqrt(size * size + square), size);
  const T factor = T(1) / (size - length);
  for (int64_t i = 1; i < n; ++i) {
    x[i] *= factor;
  }
  *beta = length / scale;
  return (length - size) / length;
}

}  // namespace

template <typename T>
T make_reflector(const MatrixLines<T>& lines, T* x, int64_t n, T* beta) {
  return reflect(lines, x, n, beta);
}

template <typename T>
Error factor_qr(DenseWork<T>& work, const Dense<T>& a, T* tau) {
  const int64_t m = a.rows, k = std::min(a.rows, a.cols);
  ET_TRY(Reflectors<T> block, Reflectors<T>::make(work, m, a.cols));
  for (int64_t start = 0; start < k; start += kPanelWidth) {
    const int64_t count = std::min(kPanelWidth, k - start), rows = m - start, rest = a.cols - start - count;
    const Dense<T> v = block.used(count, rows);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        v(j, i) = a(start + i, start + j);
      }
    }
    T products[kPanelWidth];
    for (int64_t j = 0; j < count; ++j) {
      T beta;
      const T t = reflect(work.lines, v[j] + j, rows - j, &beta);
      tau[start + j] = t;
      const int64_t behind = count - 1 - j;
      if (t != T(0) && behind > 0) {
        work.lines.dot(v[j + 1] + j, v.stride, behind, v[j] + j, rows - j, products);
        for (int64_t l = 0; l < behind; ++l) {
          const T factor = -t * products[l];
          work.lines.add(v[j + 1 + l] + j, v[j] + j, 0, &factor, 1, rows - j);
        }
      }
      for (int64_t i = 0; i < j; ++i) {  // what is above the diagonal belongs to R
        a(start + i, start + j) = v(j, i);
        v(j, i) = T(0);
      }
      a(start + j, start + j) = beta;
    }
    for (int64_t i = 1; i < rows; ++i) {
      for (int64_t j = 0; j < std::min(i, count); ++j) {
        a(start + i, start + j) = v(j, i);
      }
    }
    if (rest > 0) {
      ET_RETURN_IF_ERROR(block.make_triangle(work, tau + start, count, rows));
      ET_RETURN_IF_ERROR(block.apply(work, count, a.block(start, start + count, rows, rest), true));
    }
  }
  return Error::Ok;
}

template <typename T>
Error apply_reflectors(DenseWork<T>& work, const DenseOperand<T>& a, int64_t below, const T* tau, int64_t k,
                       const Dense<T>& c, bool reversed, bool onto_identity) {
  ET_TRY(Reflectors<T> block, Reflectors<T>::make(work, c.rows, c.cols));
  const int64_t blocks = divide_up(k, kPanelWidth);
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t start = (reversed ? step : blocks - 1 - step) * kPanelWidth;
    const int64_t count = std::min(kPanelWidth, k - start), top = start + below, rows = c.rows - top;
    const Dense<T> v = block.used(count, rows);
    const T* const from = a.data + top * a.row_stride + start * a.col_stride;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        v(j, i) = i > j ? from[i * a.row_stride + j * a.col_stride] : i == j ? T(1) : T(0);
      }
    }
    ET_RETURN_IF_ERROR(block.make_triangle(work, tau + start, count, rows));
    const int64_t left = onto_identity ? std::min(top, c.cols) : 0;
    ET_RETURN_IF_ERROR(block.apply(work, count, c.block(top, left, rows, c.cols - left), reversed));
  }
  return Error::Ok;
}

#define ET_INSTANTIATE(T)                                                                                    \
  template T make_reflector(const MatrixLines<T>& lines, T* x, int64_t n, T* beta);                          \
  template Error factor_qr(DenseWork<T>& work, const Dense<T>& a, T* tau);                                   \
  template Error apply_reflectors(DenseWork<T>& work, const DenseOperand<T>& a, int64_t below, const T* tau, \
                                  int64_t k, const Dense<T>& c, bool reversed, bool onto_identity);
ET_INSTANTIATE(float)
ET_INSTANTIATE(double)
#undef ET_INSTANTIATE

}  // namespace et::kernels::optimized::linalg
