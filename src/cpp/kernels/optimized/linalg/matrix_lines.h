/// Sums of rows, products of rows with a vector, and rotations of rows, in vectors: what is left of a decomposition
/// when its bulk is a matrix product.
///
/// For: the decompositions of large matrices (linalg/*.cpp), whose matrices are row-major with rows `stride` elements
/// apart. Not for: matrix products (gemm.h); tensors (row_product.h).
///
///     const MatrixLines<float>& lines = matrix_lines<float>();
///     lines.add(y, x, stride, factors, 3, n);     // y += f0 x0 + f1 x1 + f2 x2
#pragma once

#include <cstdint>

namespace et::kernels::optimized::linalg {

template <typename T>
struct MatrixLines {
  /// y[j] += the sum over k < count of factors[k] * x[k * stride + j], j < n.
  void (*add)(T* y, const T* x, int64_t stride, const T* factors, int64_t count, int64_t n);
  /// out[k] = the sum over j < n of x[k * stride + j] * v[j], k < count.
  void (*dot)(const T* x, int64_t stride, int64_t count, const T* v, int64_t n, T* out);
  /// y = A x of the symmetric A [n, n] whose lower triangle is given; each element of it is read once.
  void (*symmetric)(const T* a, int64_t stride, int64_t n, const T* x, T* y);
  /// Rows k and k + 1 of x become c[k] x_k + s[k] x_(k+1) and c[k] x_(k+1) - s[k] x_k. That is done for k = 0, 1, …
  /// count - 1 or, with `downward` false, for k = count - 1 … 0. Rows of n elements.
  void (*rotate)(T* x, int64_t stride, int64_t n, const T* c, const T* s, int64_t count, bool downward);
};

/// The functions for this processor. T: float or double.
template <typename T>
const MatrixLines<T>& matrix_lines();

}  // namespace et::kernels::optimized::linalg
