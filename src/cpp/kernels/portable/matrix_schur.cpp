// Eigenvalues and vectors of general matrices: balanced, to Hessenberg's form by reflections, then QR steps.
// Source: G. Golub, C. Van Loan, "Matrix Computations", 7.4.2 (Hessenberg), 7.5.7 (balancing).

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/portable/large_matrices.h"
#include "kernels/portable/schur.h"

namespace et::kernels::portable {
namespace {

// Rows are divided and columns multiplied by powers of two until both are of about the same size.
void balance(const Matrix& a, double* scale, double* columns, double* rows) {
  const int64_t n = a.rows;
  std::fill_n(scale, n, 1.0);
  bool changed = true;
  for (int pass = 0; pass < 20 && changed; ++pass) {
    changed = false;
    std::fill_n(columns, n, 0.0);
    for (int64_t i = 0; i < n; ++i) {
      rows[i] = 0.0;
      for (int64_t j = 0; j < n; ++j) {
        const double size = i == j ? 0.0 : a(i, j) * a(i, j);
        rows[i] += size;
        columns[j] += size;
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const double column = std::sqrt(columns[i]), row = std::sqrt(rows[i]);
      if (column == 0.0 || row == 0.0 || !std::isfinite(column) || !std::isfinite(row)) {
        continue;
      }
      int exponent = 0;
      std::frexp(std::sqrt(row / column), &exponent);
      const double factor = std::ldexp(1.0, exponent - 1);
      if (column * factor + row / factor >= 0.9 * (column + row) || scale[i] * factor > 1e100 ||
          scale[i] * factor < 1e-100) {
        continue;
      }
      changed = true;
      scale[i] *= factor;
      for (int64_t j = 0; j < n; ++j) {
        a(i, j) /= factor;
        a(j, i) *= factor;
      }
    }
  }
}

// a becomes zero below its first subdiagonal; the rows of ut (none: not wanted) the columns of what turned it.
void to_hessenberg(const Matrix& a, const Matrix& ut, double* v, double* sums) {
  const int64_t n = a.rows;
  if (ut.rows > 0) {
    set_identity(ut);
  }
  for (int64_t k = 0; k + 2 < n; ++k) {
    const int64_t first = k + 1;
    double below = 0.0;
    for (int64_t i = first; i < n; ++i) {
      v[i] = a(i, k);
      below += i > first ? v[i] * v[i] : 0.0;
    }
    if (below == 0.0) {
      continue;
    }
    const double alpha = v[first];
    const double beta = -std::copysign(std::sqrt(alpha * alpha + below), alpha);
    const double tau = (beta - alpha) / beta;
    v[first] = 1.0;
    for (int64_t i = first + 1; i < n; ++i) {
      v[i] /= alpha - beta;
      a(i, k) = 0.0;
    }
    a(first, k) = beta;
    const auto from_left = [&](const Matrix& m, int64_t from) {
      std::fill(sums + from, sums + n, 0.0);
      for (int64_t i = first; i < n; ++i) {
        for (int64_t j = from; j < n; ++j) {
          sums[j] += v[i] * m(i, j);
        }
      }
      for (int64_t i = first; i < n; ++i) {
        for (int64_t j = from; j < n; ++j) {
          m(i, j) -= tau * v[i] * sums[j];
        }
      }
    };
    from_left(a, first);
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0.0;
      for (int64_t j = first; j < n; ++j) {
        sum += a(i, j) * v[j];
      }
      for (int64_t j = first; j < n; ++j) {
        a(i, j) -= tau * sum * v[j];
      }
    }
    if (ut.rows > 0) {
      from_left(ut, 0);
    }
  }
}

// The rows of vt become those of the eigenvectors of the quasi-triangular t, taken back by the rows of ut.
Error vectors_of(MatrixWork& work, const SchurWindow<double>& t, const double* re, const double* im, const Matrix& own,
                 const Matrix& ut, const Matrix& vt) {
  const int64_t n = t.n;
  std::fill_n(own.data, own.rows * n, 0.0);
  double size = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    size = std::max({size, std::fabs(re[i]), std::fabs(im[i])});
  }
  const double smallest = std::max(size * std::numeric_limits<double>::epsilon(), 1e-290);
  double* const zeros = own[n];
  for (int64_t j = 0; j < n; ++j) {
    solve_vector<double>(t, 0, n, j, {re[j], im[j]}, smallest, own[j], im[j] == 0.0 ? zeros : own[j + 1]);
    j += im[j] == 0.0 ? 0 : 1;
  }
  return multiply(work, {own.data, n, n}, ut, vt);
}

// Rows of vt [j, and j + 1 for imaginary parts] of length 1, the largest element of a complex one real.
void normalise_vectors(const Matrix& vt, const double* im, const double* scale) {
  const int64_t n = vt.rows;
  for (int64_t j = 0; j < n; ++j) {
    const bool is_complex = im[j] != 0.0;
    double *const real = vt[j], *const imaginary = is_complex ? vt[j + 1] : nullptr;
    double largest = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      real[i] *= scale[i];
      if (is_complex) {
        imaginary[i] *= scale[i];
      }
      largest = std::max({largest, std::fabs(real[i]), is_complex ? std::fabs(imaginary[i]) : 0.0});
    }
    double squares = 0.0, best = -1.0, c = 1.0, s = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      const double x = real[i] / largest, y = is_complex ? imaginary[i] / largest : 0.0;
      const double square = x * x + y * y;
      squares += square;
      if (is_complex && square > best) {
        best = square;
        c = x / std::sqrt(square);
        s = y / std::sqrt(square);
      }
    }
    const double factor = 1.0 / (largest * std::sqrt(squares));
    for (int64_t i = 0; i < n; ++i) {
      const double x = real[i] * factor;
      if (!is_complex) {
        real[i] = x;
        continue;
      }
      const double y = imaginary[i] * factor;
      real[i] = c * x + s * y;
      imaginary[i] = c * y - s * x;
    }
    j += is_complex ? 1 : 0;
  }
}

}  // namespace

Error general_eigen(MatrixWork& work, const Matrix& a, double* re, double* im, const Matrix& vt) {
  const int64_t n = a.rows;
  const bool wanted = vt.data != nullptr;
  const LargeMatrices* const methods = work.methods_for(n);
  const bool keeps = wanted && methods == nullptr;
  ET_TRY(double* numbers, work.numbers(3 * n + (keeps ? n * n + (n + 1) * n : 0)));
  double *const scale = numbers, *const v = numbers + n, *const sums = numbers + 2 * n;
  const int exponent = normalise(a);
  balance(a, scale, v, sums);
  if (methods != nullptr) {
    ET_RETURN_IF_ERROR(methods->general_eigen(work, a, re, im, vt));
  } else {
    const Matrix ut{numbers + 3 * n, keeps ? n : 0, n}, own{numbers + 3 * n + n * n, n + 1, n};
    to_hessenberg(a, ut, v, sums);
    const SchurWindow<double> window{a.data, n, n, ut.data, keeps ? n : 0, n};
    const bool is_done = window.to_schur([&] { return work.context().cancelled(); });
    ET_CHECK_OR_RETURN(!work.context().cancelled(), Cancelled, "eigenvalues: cancelled");
    ET_CHECK_OR_RETURN(is_done, InvalidState, "eigenvalues: the iteration does not converge");
    window.values(re, im);
    if (wanted) {
      ET_RETURN_IF_ERROR(vectors_of(work, window, re, im, own, ut, vt));
    }
  }
  if (wanted) {
    normalise_vectors(vt, im, scale);
  }
  for (int64_t i = 0; i < n; ++i) {
    re[i] = std::ldexp(re[i], exponent);
    im[i] = std::ldexp(im[i], exponent);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
