// Eigenvalues, and the exponential of a matrix.
#include "kernels/portable/op_linalg_eigen.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "kernels/portable/matrix.h"

namespace et::kernels::portable {
namespace {

using Complex = std::complex<double>;

struct ComplexMatrix {
  Complex* data;
  int64_t n;
  Complex& operator()(int64_t row, int64_t col) const { return data[row * n + col]; }
};

Result<ComplexMatrix> make_complex(KernelContext& context, int64_t n) {
  ET_TRY(double* memory, make_vector(context, 2 * n * n));
  return ComplexMatrix{reinterpret_cast<Complex*>(memory), n};
}

// The unitary rotation [c, s; -conj(s), c] that takes (a, b) to (r, 0).
struct Givens {
  double c = 1.0;
  Complex s = 0.0;

  Givens(Complex a, Complex b) {
    const double norm = std::hypot(std::abs(a), std::abs(b));
    if (norm == 0.0 || b == 0.0) {
      return;
    }
    if (a == 0.0) {
      c = 0.0;
      s = std::conj(b) / std::abs(b);
      return;
    }
    c = std::abs(a) / norm;
    s = a / std::abs(a) * std::conj(b) / norm;
  }
  void rows(const ComplexMatrix& m, int64_t k, int64_t from) const {
    for (int64_t j = from; j < m.n; ++j) {
      const Complex x = m(k, j), y = m(k + 1, j);
      m(k, j) = c * x + s * y;
      m(k + 1, j) = -std::conj(s) * x + c * y;
    }
  }
  void columns(const ComplexMatrix& m, int64_t k, int64_t to) const {
    for (int64_t i = 0; i < to; ++i) {
      const Complex x = m(i, k), y = m(i, k + 1);
      m(i, k) = c * x + std::conj(s) * y;
      m(i, k + 1) = -s * x + c * y;
    }
  }
};

// h becomes zero below its first subdiagonal, q collects the reflections: A = q h q*.
void to_hessenberg(const ComplexMatrix& h, const ComplexMatrix& q) {
  for (int64_t k = 0; k + 2 < h.n; ++k) {
    for (int64_t i = h.n - 2; i > k; --i) {
      const Givens turn(h(i, k), h(i + 1, k));
      turn.rows(h, i, 0);
      turn.columns(h, i, h.n);
      turn.columns(q, i, h.n);
    }
  }
}

// The eigenvalue of the last two rows' block that is nearer to its last element.
Complex shift_of(const ComplexMatrix& h, int64_t last) {
  const Complex a = h(last - 1, last - 1), b = h(last - 1, last), c = h(last, last - 1), d = h(last, last);
  const Complex half = 0.5 * (a + d);
  const Complex root = std::sqrt(0.25 * (a - d) * (a - d) + b * c);
  return std::abs(half + root - d) < std::abs(half - root - d) ? half + root : half - root;
}

// QR iterations with shifts until h is upper triangular: Schur's form. False when they do not converge.
// Source: G. Golub, C. Van Loan, "Matrix Computations", 7.5 (single shifts, on complex numbers).
bool to_schur(KernelContext& context, const ComplexMatrix& h, const ComplexMatrix& q, Givens* turns) {
  int64_t last = h.n - 1;
  int iterations = 0;
  while (last > 0) {
    int64_t first = last;
    while (first > 0) {
      const double around = std::abs(h(first, first)) + std::abs(h(first - 1, first - 1));
      if (std::abs(h(first, first - 1)) <= 2.3e-16 * (around == 0.0 ? 1.0 : around)) {
        h(first, first - 1) = 0.0;
        break;
      }
      --first;
    }
    if (first == last) {
      --last;
      iterations = 0;
      continue;
    }
    if (++iterations > 300 || context.cancelled()) {
      return false;
    }
    // Every tenth shift is an arbitrary one, for the matrices that the usual one leaves as they are.
    const Complex shift = iterations % 10 == 0 ? h(last, last) + std::abs(h(last, last - 1)) : shift_of(h, last);
    for (int64_t i = first; i <= last; ++i) {
      h(i, i) -= shift;
    }
    for (int64_t k = first; k < last; ++k) {
      turns[k] = Givens(h(k, k), h(k + 1, k));
      turns[k].rows(h, k, k);
    }
    for (int64_t k = first; k < last; ++k) {
      turns[k].columns(h, k, std::min(k + 2, last + 1));
      turns[k].columns(q, k, h.n);
    }
    for (int64_t i = first; i <= last; ++i) {
      h(i, i) += shift;
    }
  }
  return true;
}

// Eigenvectors of the triangular t, taken back by q, of unit length; one a column of `vectors`.
void vectors_of(const ComplexMatrix& t, const ComplexMatrix& q, const ComplexMatrix& vectors, Complex* x) {
  const int64_t n = t.n;
  double size = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    size = std::max(size, std::abs(t(i, i)));
  }
  for (int64_t k = 0; k < n; ++k) {
    std::fill(x, x + n, Complex(0.0));
    x[k] = 1.0;
    for (int64_t i = k - 1; i >= 0; --i) {
      Complex sum = t(i, k);
      for (int64_t j = i + 1; j < k; ++j) {
        sum += t(i, j) * x[j];
      }
      Complex gap = t(k, k) - t(i, i);
      if (std::abs(gap) < 1e-16 * size || gap == 0.0) {
        gap = std::max(1e-16 * size, 1e-300);
      }
      x[i] = sum / gap;
    }
    double norm = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      Complex value = 0.0;
      for (int64_t j = 0; j <= k; ++j) {
        value += q(i, j) * x[j];
      }
      vectors(i, k) = value;
      norm = std::hypot(norm, std::abs(value));
    }
    for (int64_t i = 0; i < n; ++i) {
      vectors(i, k) /= norm;
    }
  }
}

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
  ET_TRY(ComplexMatrix h, make_complex(context, n));
  ET_TRY(ComplexMatrix q, make_complex(context, n));
  ET_TRY(ComplexMatrix found, make_complex(context, n));
  ET_TRY(double* memory, make_vector(context, 5 * n));
  auto* turns = reinterpret_cast<Givens*>(memory);
  auto* x = reinterpret_cast<Complex*>(memory + 3 * n);
  static_assert(sizeof(Givens) == 3 * sizeof(double));
  const MatrixBatch from(self, batch);
  for (int64_t b = 0; b < from.count({&values, vectors}); ++b) {
    from.load(b, a);
    for (int64_t i = 0; i < n * n; ++i) {
      ET_CHECK_OR_RETURN(std::isfinite(a.data[i]), InvalidArgument, "%s: self holds infinities or NaN", op);
      h.data[i] = a.data[i];
      q.data[i] = i / n == i % n ? 1.0 : 0.0;
    }
    to_hessenberg(h, q);
    ET_CHECK_OR_RETURN(to_schur(context, h, q, turns), InvalidState, "%s: the iteration does not converge", op);
    for (int64_t i = 0; i < n; ++i) {
      store_complex(values, b * n + i, h(i, i));
    }
    if (vectors != nullptr) {
      vectors_of(h, q, found, x);
      for (int64_t i = 0; i < n * n; ++i) {
        store_complex(*vectors, b * n * n + i, found.data[i]);
      }
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
