// Eigenvalues, and the exponential of a matrix.
#include "kernels/portable/op_linalg_eigen.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "kernels/portable/matrix.h"

namespace et::kernels::portable {
namespace {

using Complex = std::complex<double>;

void store_complex(const Tensor& out, int64_t index, Complex value) {
  if (out.scalar_type() == ScalarType::ComplexFloat) {
    static_cast<ComplexFloat*>(out.mutable_data_ptr())[index] = {static_cast<float>(value.real()),
                                                                 static_cast<float>(value.imag())};
  } else {
    static_cast<ComplexDouble*>(out.mutable_data_ptr())[index] = {value.real(), value.imag()};
  }
}

Error eigen(KernelContext& context, const char* op, const Tensor& self, Tensor& values, const Tensor* vectors) {
  ET_RETURN_IF_ERROR(check_matrices(op, "self", self, true));
  ET_CHECK_OR_RETURN(is_complex(values.scalar_type()), InvalidType, "%s: the eigenvalues are %s, must be complex", op,
                     to_string(values.scalar_type()));
  const IntArrayRef batch = batch_of(self);
  const int64_t n = self.size(-1);
  Sizes sizes(batch);
  sizes.push_back(n);
  ET_RETURN_IF_ERROR(resize_tensor(context, values, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&values}));
  if (vectors != nullptr) {
    ET_CHECK_OR_RETURN(is_complex(vectors->scalar_type()), InvalidType, "%s: the eigenvectors are %s, must be complex",
                       op, to_string(vectors->scalar_type()));
    ET_RETURN_IF_ERROR(resize_tensor(context, *vectors, self.sizes()));
    ET_RETURN_IF_ERROR(check_row_major(op, {vectors}));
  }
  ET_TRY(Matrix a, make_matrix(context, n, n));
  Matrix rows;  // eigenvectors; those of a pair give real and imaginary parts
  if (vectors != nullptr) {
    ET_TRY(rows, make_matrix(context, n, n));
  }
  ET_TRY(double* re, make_vector(context, n));
  ET_TRY(double* im, make_vector(context, n));
  MatrixWork work(context, self);
  const MatrixBatch from(self, batch);
  for (int64_t b = 0; b < from.count({&values, vectors}); ++b) {
    from.load(b, a);
    for (int64_t i = 0; i < n * n; ++i) {
      ET_CHECK_OR_RETURN(std::isfinite(a.data[i]), InvalidArgument, "%s: self holds infinities or NaN", op);
    }
    ET_RETURN_IF_ERROR(general_eigen(work, a, re, im, rows));
    for (int64_t i = 0; i < n; ++i) {
      store_complex(values, b * n + i, {re[i], im[i]});
    }
    for (int64_t j = 0; vectors != nullptr && j < n; ++j) {
      const int64_t at = b * n * n + j;
      for (int64_t i = 0; i < n; ++i) {
        const double imaginary = im[j] == 0.0 ? 0.0 : rows(j + 1, i);
        store_complex(*vectors, at + i * n, {rows(j, i), imaginary});
        if (im[j] != 0.0) {
          store_complex(*vectors, at + 1 + i * n, {rows(j, i), -imaginary});
        }
      }
      j += im[j] == 0.0 ? 0 : 1;
    }
  }
  return Error::Ok;
}

double norm_of(const Matrix& a) {  // largest sum of a column's magnitudes
  double norm = 0.0;
  for (int64_t j = 0; j < a.cols; ++j) {
    double sum = 0.0;
    for (int64_t i = 0; i < a.rows; ++i) {
      sum += std::fabs(a(i, j));
    }
    norm = std::max(norm, sum);
  }
  return norm;
}

/// Workspace of one exponential.
struct Exponential {
  MatrixWork memory;
  Matrix a, a2, a4, a6, u, v, next;
  int64_t* pivots;

  static Result<Exponential> make(KernelContext& context, const Tensor& result, int64_t n) {
    Exponential work{MatrixWork(context, result), {}, {}, {}, {}, {}, {}, {}, nullptr};
    for (Matrix* matrix : {&work.a, &work.a2, &work.a4, &work.a6, &work.u, &work.v, &work.next}) {
      ET_TRY(*matrix, make_matrix(context, n, n));
    }
    ET_TRY(double* pivots, make_vector(context, n));
    work.pivots = reinterpret_cast<int64_t*>(pivots);
    return work;
  }

  // Scaled until its norm is small, Padé's approximant of order 13 in even powers, squared again.
  // Source: N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.
  // Errors: MemoryAllocationFailed, Cancelled.
  Result<Matrix> run() {
    constexpr int kOrder = 13;
    constexpr double kLargestNorm = 5.371920351148152;  // of which the approximant is exact to a double's last bit
    const double norm = norm_of(a);
    int squarings = 0;
    if (norm > kLargestNorm && std::isfinite(norm)) {
      squarings = static_cast<int>(std::ceil(std::log2(norm / kLargestNorm)));
      const double scale = std::ldexp(1.0, -squarings);
      std::for_each(a.data, a.data + a.rows * a.cols, [scale](double& value) { value *= scale; });
    }
    double c[kOrder + 1] = {1.0};
    for (int k = 1; k <= kOrder; ++k) {
      c[k] = c[k - 1] * static_cast<double>(kOrder - k + 1) / static_cast<double>(k * (2 * kOrder - k + 1));
    }
    ET_RETURN_IF_ERROR(multiply(memory, a, a, a2));
    ET_RETURN_IF_ERROR(multiply(memory, a2, a2, a4));
    ET_RETURN_IF_ERROR(multiply(memory, a2, a4, a6));
    ET_RETURN_IF_ERROR(half(c + 1, v));
    ET_RETURN_IF_ERROR(multiply(memory, a, v, u));
    ET_RETURN_IF_ERROR(half(c, v));
    const int64_t count = a.rows * a.cols;
    for (int64_t i = 0; i < count; ++i) {
      next.data[i] = v.data[i] + u.data[i];
      v.data[i] -= u.data[i];
    }
    ET_TRY([[maybe_unused]] const int64_t failed, lu_factor(memory, v, pivots));
    ET_RETURN_IF_ERROR(lu_solve(memory, v, pivots, next, false));
    for (int i = 0; i < squarings; ++i) {
      ET_RETURN_IF_ERROR(multiply(memory, next, next, u));
      std::swap(next, u);
    }
    return next;
  }

 private:
  // to = sum over j of c[2 j] a^(2 j), up to the twelfth power.
  Error half(const double* c, const Matrix& to) {
    const int64_t count = a.rows * a.cols;
    for (int64_t i = 0; i < count; ++i) {
      next.data[i] = c[12] * a6.data[i] + c[10] * a4.data[i] + c[8] * a2.data[i];
    }
    ET_RETURN_IF_ERROR(multiply(memory, a6, next, to));
    for (int64_t i = 0; i < count; ++i) {
      to.data[i] += c[6] * a6.data[i] + c[4] * a4.data[i] + c[2] * a2.data[i];
    }
    for (int64_t i = 0; i < to.rows; ++i) {
      to(i, i) += c[0];
    }
    return Error::Ok;
  }
};

}  // namespace

Error linalg_eigh_eigenvalues(KernelContext& context, const Tensor& a, std::string_view uplo, bool compute_v,
                              Tensor& eigenvalues, Tensor& eigenvectors) {
  ET_RETURN_IF_ERROR(check_matrices("aten::_linalg_eigh", "A", a, true));
  const IntArrayRef batch = batch_of(a);
  const int64_t n = a.size(-1);
  Sizes sizes(batch);
  sizes.push_back(n);
  ET_RETURN_IF_ERROR(resize_tensor(context, eigenvalues, sizes));
  const int64_t empty[] = {0};
  ET_RETURN_IF_ERROR(resize_tensor(context, eigenvectors, compute_v ? IntArrayRef(a.sizes()) : IntArrayRef(empty)));
  ET_TRY(Matrix given, make_matrix(context, n, n));
  Matrix vectors, rows;
  if (compute_v) {
    ET_TRY(vectors, make_matrix(context, n, n));
    ET_TRY(rows, make_matrix(context, n, n));
  }
  ET_TRY(double* values, make_vector(context, n));
  MatrixWork work(context, eigenvalues);
  const bool upper = uplo == "U" || uplo == "u";
  const MatrixBatch from(a, batch);
  for (int64_t b = 0; b < from.count({&eigenvalues, &eigenvectors}); ++b) {
    from.load(b, given);
    mirror(given, upper);
    ET_RETURN_IF_ERROR(symmetric_eigen(work, given, values, vectors, rows));
    MatrixBatch(eigenvalues, batch, 1).store(b, values);
    if (compute_v) {
      MatrixBatch(eigenvectors, batch).store(b, vectors);
    }
  }
  return Error::Ok;
}

Error linalg_eig_out(KernelContext& context, const Tensor& self, Tensor& eigenvalues, Tensor& eigenvectors) {
  return eigen(context, "aten::linalg_eig", self, eigenvalues, &eigenvectors);
}

Error linalg_eigvals_out(KernelContext& context, const Tensor& self, Tensor& out) {
  return eigen(context, "aten::_linalg_eigvals", self, out, nullptr);
}

Error linalg_matrix_exp_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_RETURN_IF_ERROR(check_matrices("aten::linalg_matrix_exp", "self", self, true));
  const IntArrayRef batch = batch_of(self);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_TRY(Exponential work, Exponential::make(context, out, self.size(-1)));
  const MatrixBatch from(self, batch), to(out, batch);
  for (int64_t b = 0; b < from.count({&out}); ++b) {
    from.load(b, work.a);
    ET_TRY(const Matrix result, work.run());
    to.store(b, result);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
