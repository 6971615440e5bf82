/// Decompositions of large matrices that another library does faster.
///
/// For: kernels of a library with vector code (kernels/optimized), which call the portable kernels and lend them these
/// methods; the functions of matrix.h then take them for matrices of kLargeMatrix rows and columns and more. A portable
/// kernel that is called by itself is lent nothing. Not for: small matrices, which plain loops do as fast.
///
///     const LentMethods lent(kMethods);
///     return portable_kernel.run(context, args, nullptr);
#pragma once

#include "kernels/portable/matrix.h"

namespace et::kernels::portable {

/// Each is what the function of the same name in matrix.h says. Errors: MemoryAllocationFailed, Cancelled.
struct LargeMatrices {
  Result<int64_t> (*lu_factor)(MatrixWork& work, const Matrix& a, int64_t* pivots);
  Error (*triangular_solve)(MatrixWork& work, const Matrix& a, const Matrix& b, bool upper, bool transposed, bool unit);
  Result<int64_t> (*cholesky_factor)(MatrixWork& work, const Matrix& a);
  /// As linalg_ldl_factor_ex's kernel: the lower triangle in place, pivots [n] as LAPACK's sytrf numbers them.
  Result<int64_t> (*ldl_factor)(MatrixWork& work, const Matrix& a, double* pivots);
  Error (*qr_factor)(MatrixWork& work, const Matrix& a, double* tau);
  Error (*apply_reflectors)(MatrixWork& work, const Matrix& a, const double* tau, int64_t k, const Matrix& c,
                            bool transposed, bool onto_identity);
  /// Of the symmetric a, in no order; d, e, c, s: [n], of which d gets the values. `rows` without data: not wanted;
  /// otherwise the eigenvectors become its rows.
  Error (*symmetric_eigen)(MatrixWork& work, const Matrix& a, double* d, double* e, double* c, double* s,
                           const Matrix& rows);
  /// Of a [m, n], m >= n, in no order and with any sign; d, e: [n], angles: [4 n]. ut and vt as symmetric_eigen's rows.
  /// False where it does not converge.
  Result<bool> (*singular_values)(MatrixWork& work, const Matrix& a, double* d, double* e, double* angles,
                                  const Matrix& ut, const Matrix& vt);
  /// vt as symmetric_eigen's rows, of any length.
  Error (*general_eigen)(MatrixWork& work, const Matrix& a, double* re, double* im, const Matrix& vt);
  Error (*multiply)(MatrixWork& work, const Matrix& a, const Matrix& b, const Matrix& c);
};

/// Where rows and columns are as many, sums of vectors are worth their calls.
inline constexpr int64_t kLargeMatrix = 48;

/// Lends methods to the portable kernels that this thread calls while the object lives.
class LentMethods {
 public:
  explicit LentMethods(const LargeMatrices& methods);
  ~LentMethods();
  LentMethods(const LentMethods&) = delete;
  LentMethods& operator=(const LentMethods&) = delete;

 private:
  const LargeMatrices* before_;
};

}  // namespace et::kernels::portable
