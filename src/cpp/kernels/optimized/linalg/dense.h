/// Dense matrices of floats or doubles, and the decompositions whose bulk is a product of matrices.
///
/// For: large_matrices.cpp, which gives them to the linear algebra kernels. Matrices are row-major views with rows
/// `stride` elements apart; methods work in place and in memory that their caller gives. Not for: small matrices, which
/// plain loops in double do as fast and more exactly (kernels/portable/matrix.h).
///
///     DenseWork<float> work(context, memory, …);
///     ET_RETURN_IF_ERROR(factor_cholesky(work, a, &info));
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/optimized/linalg/matrix_lines.h"
#include "kernels/optimized/matmul/gemm.h"
#include "runtime/memory_allocator.h"

namespace et::kernels::optimized::linalg {

/// Columns of a panel: they are worked off one by one, and the rest of the matrix by one product a panel.
inline constexpr int64_t kPanelWidth = 32;
/// Cosines and sines that are kept at a time (linalg/rotations.h).
inline constexpr int64_t kRotationNumbers = 2 * 65536;

template <typename T>
struct Dense {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  T* operator[](int64_t row) const { return data + row * stride; }
  T& operator()(int64_t row, int64_t col) const { return data[row * stride + col]; }
  /// The part of `n_rows` x `n_cols` that begins at (row, col).
  Dense block(int64_t row, int64_t col, int64_t n_rows, int64_t n_cols) const {
    return {data + row * stride + col, n_rows, n_cols, stride};
  }
};

/// A matrix or its transpose, as an operand of a product.
template <typename T>
struct DenseOperand {
  const T* data;
  int64_t rows, cols, row_stride, col_stride;

  DenseOperand(const Dense<T>& a) : DenseOperand{a.data, a.rows, a.cols, a.stride, 1} {}  // NOLINT: a view
  DenseOperand(const T* values, int64_t n_rows, int64_t n_cols, int64_t row_step, int64_t col_step)
      : data(values), rows(n_rows), cols(n_cols), row_stride(row_step), col_stride(col_step) {}
};
template <typename T>
DenseOperand<T> transposed(const Dense<T>& a) {
  return {a.data, a.cols, a.rows, 1, a.stride};
}

/// What a decomposition works in: threads and cancellation of the kernel, memory for packed strips and for its own
/// numbers.
template <typename T>
class DenseWork {
 public:
  /// Bytes of memory for products whose sizes are up to `largest`, and for `numbers` more numbers.
  static size_t bytes_for(int64_t largest, int64_t numbers) {
    return strip_bytes(largest) + static_cast<size_t>(numbers) * sizeof(T) + kMatrices * kAlignment;
  }
  /// `memory`: bytes_for(largest, …) bytes.
  DenseWork(KernelContext& context, uint8_t* memory, size_t nbytes, int64_t largest)
      : lines(matrix_lines<T>()),
        context_(context),
        strips_(memory, strip_bytes(largest)),
        own_(memory + strip_bytes(largest), nbytes - strip_bytes(largest)) {}

  const MatrixLines<T>& lines;

  KernelContext& context() const { return context_; }
  bool cancelled() const { return context_.cancelled(); }
  /// Errors: MemoryAllocationFailed where it is more than was reserved, in at most kMatrices pieces.
  Result<T*> vector(int64_t n) {
    void* const memory = own_.allocate(static_cast<size_t>(n) * sizeof(T), kAlignment);
    ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed, "a decomposition has no room for %zu bytes",
                       static_cast<size_t>(n) * sizeof(T));
    return static_cast<T*>(memory);
  }
  Result<Dense<T>> matrix(int64_t rows, int64_t cols) {
    ET_TRY(T * data, vector(rows * cols));
    return Dense<T>{data, rows, cols, cols};
  }
  /// out = left · right. Errors: Cancelled.
  Error multiply(const DenseOperand<T>& left, const DenseOperand<T>& right, const Dense<T>& out) {
    return product(left, right, out, false, false);
  }
  /// out -= left · right. Errors: Cancelled.
  Error subtract(const DenseOperand<T>& left, const DenseOperand<T>& right, const Dense<T>& out) {
    return product(left, right, out, true, true);
  }
  /// out += left · right. Errors: Cancelled.
  Error add(const DenseOperand<T>& left, const DenseOperand<T>& right, const Dense<T>& out) {
    return product(left, right, out, true, false);
  }

  /// Pieces of memory that a decomposition may take.
  static constexpr int64_t kMatrices = 24;

 private:
  static constexpr size_t kAlignment = 64;
  static size_t strip_bytes(int64_t largest) {  // what multiply() of gemm.h takes
    const auto n = static_cast<size_t>(std::min<int64_t>(largest, 2048)) + 64;
    return (2 * n * 256 * sizeof(T) + 2 * kAlignment) / kAlignment * kAlignment;
  }
  Error product(const DenseOperand<T>& left, const DenseOperand<T>& right, const Dense<T>& out, bool accumulate,
                bool negate);

  KernelContext& context_;
  runtime::MemoryAllocator strips_, own_;
};

/// A triangular matrix by its elements (i, k) at data[i * row_stride + k * col_stride].
template <typename T>
struct Triangle {
  const T* data;
  int64_t n, row_stride, col_stride;
  bool lower, unit;  // unit: the diagonal is taken as ones
};
/// b becomes A⁻¹ b. Errors: Cancelled.
template <typename T>
Error solve_triangle(DenseWork<T>& work, const Triangle<T>& a, const Dense<T>& b);

/// LU factors in place; pivots [min(rows, cols)] from 0, `info` as LAPACK's getrf. Memory: kLuNumbers(rows) numbers.
template <typename T>
Error factor_lu(DenseWork<T>& work, const Dense<T>& a, int64_t* pivots, int64_t* info);
inline int64_t lu_numbers(int64_t rows) { return 32 * rows; }

/// The upper factor of UᵀU in place of the upper triangle; `info`: 0 or the order of the first minor that is not
/// positive.
template <typename T>
Error factor_cholesky(DenseWork<T>& work, const Dense<T>& a, int64_t* info);

/// As LAPACK's sytrf of a lower triangle: blocks of one or two rows on the diagonal, the factor below them. The pivots
/// [n] count from 1 and are negative for blocks of two. `info` is 0 or the number of the first block that is zero.
/// Memory: ldl_numbers(n) numbers. Errors: Cancelled.
template <typename T>
Error factor_ldl(DenseWork<T>& work, const Dense<T>& a, double* pivots, int64_t* info);
inline int64_t ldl_numbers(int64_t n) { return 64 * n; }

/// As LAPACK's geqrf. Memory: qr_numbers(rows, cols) numbers.
template <typename T>
Error factor_qr(DenseWork<T>& work, const Dense<T>& a, T* tau);
/// c = H₁ … H_k c, or with `reversed` H_k … H₁ c, of the reflectors that factor_qr left in `a`, or with `below` = 1
/// those that begin a row lower. `onto_identity`: c is the identity. Memory as factor_qr's, of c's columns.
template <typename T>
Error apply_reflectors(DenseWork<T>& work, const DenseOperand<T>& a, int64_t below, const T* tau, int64_t k,
                       const Dense<T>& c, bool reversed, bool onto_identity);
inline int64_t qr_numbers(int64_t rows, int64_t cols) { return 32 * (rows + 2 * cols + 2 * 32); }
/// x [n] becomes the v of the reflector 1 - tau v vᵀ that takes it to (beta, 0, …), v[0] = 1; returns tau.
template <typename T>
T make_reflector(const MatrixLines<T>& lines, T* x, int64_t n, T* beta);

/// to = fromᵀ
template <typename T>
void transpose_dense(const Dense<T>& from, const Dense<T>& to) {
  constexpr int64_t kTile = 16;  // rows whose lines stay in the cache
  for (int64_t top = 0; top < from.rows; top += kTile) {
    const int64_t end = std::min(top + kTile, from.rows);
    for (int64_t j = 0; j < from.cols; ++j) {
      for (int64_t i = top; i < end; ++i) {
        to(j, i) = from(i, j);
      }
    }
  }
}

/// Eigenvalues d [n], in no order, of the symmetric a (its lower triangle), which is overwritten. e, c, s: [n] scratch.
/// rows: nullptr, or what the eigenvectors become the rows of. Memory: eigen_numbers(n) numbers. Errors: Cancelled;
/// InvalidState where it does not converge.
template <typename T>
Error eigen_of_symmetric(DenseWork<T>& work, const Dense<T>& a, double* d, double* e, double* c, double* s,
                         const Dense<T>* rows);
inline int64_t eigen_numbers(int64_t n) { return n * n + 130 * n + kRotationNumbers + qr_numbers(n, n); }

/// Singular values d [n], in no order and with any sign, of a [m, n], m >= n, which is overwritten. e: [n], angles: [4
/// n] scratch. ut, vt: both nullptr, or what the vectors become the rows of. Memory: singular_numbers(…) numbers. False
/// where it does not converge. Errors: Cancelled.
template <typename T>
Result<bool> singular_values_of(DenseWork<T>& work, const Dense<T>& a, double* d, double* e, double* angles,
                                const Dense<T>* ut, const Dense<T>* vt);
inline int64_t singular_numbers(int64_t m, int64_t n, int64_t left_rows) {
  const int64_t width = std::max(left_rows, n);
  return m * width + 65 * (m + n) + 2 * n + 2 * kRotationNumbers + qr_numbers(m, width) + qr_numbers(n, n);
}

/// Eigenvalues of a [n, n], which is overwritten; the two of a conjugate pair follow each other, im > 0 first. vt:
/// nullptr, or what the eigenvectors become the rows of, real and imaginary parts of a pair's first. Memory:
/// schur_numbers(n) numbers. Errors: Cancelled; InvalidState where it does not converge.
template <typename T>
Error eigen_of_general(DenseWork<T>& work, const Dense<T>& a, double* re, double* im, const Dense<T>* vt);
inline int64_t schur_numbers(int64_t n) { return 2 * n * n + 300 * n + 20000 + qr_numbers(n, n); }

}  // namespace et::kernels::optimized::linalg
