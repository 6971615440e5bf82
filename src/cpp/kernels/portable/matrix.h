/// Dense matrices in double precision, and the batches of them that tensors hold.
///
/// For: the linear algebra kernels (op_linalg_*.cpp). They compute in double whatever the tensors hold, so that each
/// method is compiled once and f32 results are as good as f32 can be. A calling kernel may lend faster methods for
/// large ones (large_matrices.h). Not for: matrix products of tensors (op_matmul.cpp).
///
///     MatrixBatch from(self, batch), to(out, batch);
///     ET_TRY(Matrix a, make_matrix(context, n, n));
///     for (int64_t b = 0; b < from.count(); ++b) { from.load(b, a); …; to.store(b, a); }
#pragma once

#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {

/// A row-major matrix in temporary memory.
struct Matrix {
  double* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;

  double* operator[](int64_t row) const { return data + row * cols; }
  double& operator()(int64_t row, int64_t col) const { return data[row * cols + col]; }
};

/// A matrix of zeros. Errors: MemoryAllocationFailed.
Result<Matrix> make_matrix(KernelContext& context, int64_t rows, int64_t cols);
/// `n` zeros. Errors: MemoryAllocationFailed.
Result<double*> make_vector(KernelContext& context, int64_t n);

struct LargeMatrices;

/// What a decomposition works in: its kernel's context, memory that the calls for a batch of matrices share, and how
/// exact it must be.
class MatrixWork {
 public:
  /// For a kernel whose results are like `result`: floats are computed in float where matrices are large.
  MatrixWork(KernelContext& context, const Tensor& result);

  KernelContext& context() const { return context_; }
  bool in_float() const { return in_float_; }
  /// What the calling kernel lends for matrices of `n` rows and columns; nullptr: nothing.
  const LargeMatrices* methods_for(int64_t n) const;
  /// `nbytes` bytes, until the next call. Errors: MemoryAllocationFailed.
  Result<uint8_t*> reserve(size_t nbytes) { return grown(nbytes, bytes_); }
  /// `n` numbers beside them, until the next call of this. Errors: MemoryAllocationFailed.
  Result<double*> numbers(int64_t n) {
    ET_TRY(uint8_t* memory, grown(static_cast<size_t>(n) * sizeof(double), numbers_));
    return reinterpret_cast<double*>(memory);
  }

 private:
  struct Piece {
    uint8_t* memory = nullptr;
    size_t size = 0;
  };
  Result<uint8_t*> grown(size_t nbytes, Piece& piece) {
    if (nbytes > piece.size) {
      ET_TRY(void* memory, context_.allocate_temp(nbytes));
      piece = {static_cast<uint8_t*>(memory), nbytes};
    }
    return piece.memory;
  }

  KernelContext& context_;
  const LargeMatrices* methods_;
  bool in_float_;
  Piece bytes_, numbers_;
};

void set_identity(const Matrix& a);
void copy_matrix(const Matrix& from, const Matrix& to);
/// The square a's other triangle becomes the image of the upper or the lower one.
void mirror(const Matrix& a, bool upper);
/// to = fromᵀ
void transpose_matrix(const Matrix& from, const Matrix& to);
/// Divides by the power of two that brings the largest element to [1/2, 1), and returns its exponent; 0 where there is
/// none.
int normalise(const Matrix& a);
/// c = a b. Errors: MemoryAllocationFailed, Cancelled.
Error multiply(MatrixWork& work, const Matrix& a, const Matrix& b, const Matrix& c);

/// The matrices of a tensor [batch…, rows, cols], broadcast over a larger batch. Or its vectors [batch…, n], each seen
/// as a matrix of one column, or its numbers [batch…], each seen as 1 × 1.
class MatrixBatch {
 public:
  /// `rank`: dimensions that belong to the matrix: 2, 1 or 0. `batch`: the sizes to broadcast over.
  MatrixBatch(const Tensor& tensor, IntArrayRef batch, int64_t rank = 2);

  int64_t count() const { return count_; }
  /// None where no output (nullptr: none) has an element: matrices of nothing may be more than there is time for.
  int64_t count(std::initializer_list<const Tensor*> outs) const;
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  void load(int64_t index, const Matrix& to) const;
  void store(int64_t index, const Matrix& from) const;
  /// The matrix or vector as a row of numbers.
  void store(int64_t index, const double* from) const;
  void load(int64_t index, double* to) const;
  /// One row of the matrix.
  void store_row(int64_t index, int64_t row, const double* from) const;
  void load_row(int64_t index, int64_t row, double* to) const;
  /// The matrix's only number.
  void store_number(int64_t index, double value) const { store(index, &value); }

 private:
  int64_t offset(int64_t index) const;

  ScalarType dtype_;
  char* data_;
  Sizes batch_;
  Sizes batch_strides_;  // elements; 0 where the tensor broadcasts
  int64_t count_, rows_, cols_, row_stride_, col_stride_;
};

/// The sizes in front of a matrix [batch…, rows, cols] (or of the last `rank` dimensions).
IntArrayRef batch_of(const Tensor& tensor, int64_t rank = 2);
/// [batch…, tail…]
Sizes joined(IntArrayRef batch, std::initializer_list<int64_t> tail);

/// Errors: InvalidType unless the tensor is floating; InvalidArgument when it has fewer than two dimensions or, if
///         `square`, is not a batch of square matrices.
Error check_matrices(const char* op, const char* name, const Tensor& tensor, bool square);
/// InvalidArgument where matrix `b` of a batch is singular and that matters. `zero`: its first pivot of zero, from 1
/// on; 0 where there is none.
Error check_pivot(const char* op, bool matters, int64_t b, int64_t zero);

/// Errors: InvalidArgument unless the sizes in front of the tensor's last `rank` dimensions broadcast to `batch`.
Error check_batch(const char* op, const char* name, const Tensor& tensor, int64_t rank, IntArrayRef batch);

// All of these: errors MemoryAllocationFailed and Cancelled.

/// LU factors in place, rows exchanged as `pivots` [min(rows, cols)] says (row i with row pivots[i], counted from 0).
/// Returns 0, or the number (from 1) of the first pivot that is zero.
Result<int64_t> lu_factor(MatrixWork& work, const Matrix& a, int64_t* pivots);
/// Solves A x = b with lu_factor's result, b in place. With `transposed`: Aᵀ x = b.
Error lu_solve(MatrixWork& work, const Matrix& lu, const int64_t* pivots, const Matrix& b, bool transposed);
/// Solves a triangular system in place: a x = b, with `transposed` aᵀ x = b. `unit`: the diagonal is taken as ones.
Error triangular_solve(MatrixWork& work, const Matrix& a, const Matrix& b, bool upper, bool transposed, bool unit);
/// The factor U of UᵀU in the upper triangle of a, from that triangle. Returns 0 or the order of the first minor that
/// is not positive.
Result<int64_t> cholesky_factor(MatrixWork& work, const Matrix& a);

/// Householder's QR in place, as LAPACK's geqrf: R on and above the diagonal, the reflectors below it, tau [min(rows,
/// cols)].
Error qr_factor(MatrixWork& work, const Matrix& a, double* tau);
/// c = H₁…H_k c (transposed: H_k…H₁ c), with the k reflectors in the columns of `a`. `onto_identity`: c is the
/// identity.
Error apply_reflectors(MatrixWork& work, const Matrix& a, const double* tau, int64_t k, const Matrix& c,
                       bool transposed, bool onto_identity = false);

/// A plane rotation by its cosine and sine: (x, y) becomes (c x - s y, s x + c y).
struct Rotation {
  double c, s;
};
/// Rotates rows p and q of a.
void rotate_rows(const Matrix& a, int64_t p, int64_t q, Rotation r);

/// Singular values, largest first, of a [m, n]; u [m, m or min], vt [n or min, n], which may both be empty: not wanted
/// then. Source: G. Golub, C. Van Loan, "Matrix Computations", 8.6.3 (one-sided Jacobi).
Error singular_values(MatrixWork& work, const Matrix& a, double* s, const Matrix& u, const Matrix& vt);

/// The same by way of two diagonals, for matrices that rotations take long for; u and vt without data: not wanted.
/// False where that does not serve: nothing but zeros, infinities, NaN.
Result<bool> singular_values_of_large(MatrixWork& work, const Matrix& a, double* s, const Matrix& u, const Matrix& vt);

/// Eigenvalues, smallest first, of the symmetric a [n, n], which is overwritten; eigenvectors in the columns of v and
/// in `rows` [n, n]; both without data: not wanted. NaN where a holds infinities or NaN. Errors: also InvalidState,
/// where it does not converge.
Error symmetric_eigen(MatrixWork& work, const Matrix& a, double* values, const Matrix& v, const Matrix& rows);

/// Eigenvalues of a [n, n], which is overwritten, in no order but that the two of a conjugate pair follow each other,
/// im > 0 first. vt [n, n]: no data, or the eigenvectors become its rows, of length 1: a row for a real one, a row of
/// real and one of imaginary parts for a pair. a is finite. Errors: also InvalidState, where it does not converge.
Error general_eigen(MatrixWork& work, const Matrix& a, double* re, double* im, const Matrix& vt);

}  // namespace et::kernels::portable
