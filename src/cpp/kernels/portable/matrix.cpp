#include "kernels/portable/matrix.h"

#include <algorithm>
#include <cmath>

#include "base/checked_math.h"

namespace et::kernels::portable {

Result<double*> make_vector(KernelContext& context, int64_t n) {
  constexpr int64_t kMost = INT64_MAX / static_cast<int64_t>(sizeof(double));
  ET_CHECK_OR_RETURN(n <= kMost, MemoryAllocationFailed, "%" PRId64 " numbers do not fit memory", n);
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(n > 0 ? n : 1) * sizeof(double)));
  double* values = static_cast<double*>(memory);
  std::fill(values, values + n, 0.0);
  return values;
}

Result<Matrix> make_matrix(KernelContext& context, int64_t rows, int64_t cols) {
  int64_t count = 0;
  ET_CHECK_OR_RETURN(!mul_overflow(rows, cols, &count), MemoryAllocationFailed,
                     "a matrix of %" PRId64 " by %" PRId64 " does not fit memory", rows, cols);
  ET_TRY(double* data, make_vector(context, count));
  return Matrix{data, rows, cols};
}

void set_identity(const Matrix& a) {
  std::fill(a.data, a.data + a.rows * a.cols, 0.0);
  for (int64_t i = 0; i < std::min(a.rows, a.cols); ++i) {
    a(i, i) = 1.0;
  }
}

void copy_matrix(const Matrix& from, const Matrix& to) {
  std::copy(from.data, from.data + from.rows * from.cols, to.data);
}

void transpose_matrix(const Matrix& from, const Matrix& to) {
  for (int64_t i = 0; from.cols > 0 && i < from.rows; ++i) {
    for (int64_t j = 0; j < from.cols; ++j) {
      to(j, i) = from(i, j);
    }
  }
}

int normalise(const Matrix& a) {
  double* const end = a.data + a.rows * a.cols;
  double largest = 0.0;
  for (const double* x = a.data; x < end; ++x) {
    largest = std::isfinite(*x) ? std::max(largest, std::fabs(*x)) : INFINITY;
  }
  if (!(largest > 0.0) || std::isinf(largest)) {
    return 0;
  }
  int exponent = 0;
  std::frexp(largest, &exponent);
  std::for_each(a.data, end, [exponent](double& x) { x = std::ldexp(x, -exponent); });
  return exponent;
}

void multiply(const Matrix& a, const Matrix& b, const Matrix& c) {
  std::fill(c.data, c.data + c.rows * c.cols, 0.0);
  const int64_t n = b.cols;
  for (int64_t i = 0; i < a.rows; ++i) {
    double* const to = c[i];
    int64_t k = 0;
    for (; k + 4 <= a.cols; k += 4) {  // four rows of b for each time that the row of sums is read and written
      const double f0 = a(i, k), f1 = a(i, k + 1), f2 = a(i, k + 2), f3 = a(i, k + 3);
      const double* const row = b[k];
      for (int64_t j = 0; j < n; ++j) {
        to[j] += f0 * row[j] + f1 * row[n + j] + (f2 * row[2 * n + j] + f3 * row[3 * n + j]);
      }
    }
    for (; k < a.cols; ++k) {
      const double factor = a(i, k);
      const double* const row = b[k];
      for (int64_t j = 0; j < n; ++j) {
        to[j] += factor * row[j];
      }
    }
  }
}

IntArrayRef batch_of(const Tensor& tensor, int64_t rank) {
  const int64_t kept = tensor.dim() > rank ? tensor.dim() - rank : 0;
  return {tensor.sizes().data(), static_cast<size_t>(kept)};
}

Sizes joined(IntArrayRef batch, std::initializer_list<int64_t> tail) {
  Sizes sizes(batch);
  for (const int64_t size : tail) {
    sizes.push_back(size);
  }
  return sizes;
}

MatrixBatch::MatrixBatch(const Tensor& tensor, IntArrayRef batch, int64_t rank)
    : dtype_(tensor.scalar_type()),
      data_(static_cast<char*>(tensor.mutable_data_ptr())),
      batch_(batch),
      count_(product(batch, 0, batch.size())),
      rows_(rank == 0 ? 1 : tensor.size(-rank)),
      cols_(rank == 2 ? tensor.size(-1) : 1),
      row_stride_(rank == 0 ? 0 : tensor.stride(-rank)),
      col_stride_(rank == 2 ? tensor.stride(-1) : 0) {
  const auto missing = static_cast<int64_t>(batch.size()) - (tensor.dim() - rank);
  for (int64_t d = 0; d < static_cast<int64_t>(batch.size()); ++d) {
    const bool repeats = d < missing || tensor.size(d - missing) == 1;
    batch_strides_.push_back(repeats ? 0 : tensor.stride(d - missing));
  }
}

int64_t MatrixBatch::count(std::initializer_list<const Tensor*> outs) const {
  const bool any = std::any_of(outs.begin(), outs.end(), [](auto* out) { return out != nullptr && out->numel() > 0; });
  return any ? count_ : 0;
}

int64_t MatrixBatch::offset(int64_t index) const {
  int64_t result = 0;
  for (auto d = static_cast<int64_t>(batch_.size()) - 1; d >= 0; --d) {
    result += index % batch_[d] * batch_strides_[d];
    index /= batch_[d];
  }
  return result;
}

void MatrixBatch::load(int64_t index, double* to) const {
  const auto size = static_cast<int64_t>(element_size(dtype_));
  const int64_t start = offset(index);
  for (int64_t i = 0; cols_ > 0 && i < rows_; ++i) {
    portable::load<double>(dtype_, data_ + (start + i * row_stride_) * size, col_stride_, cols_, to + i * cols_);
  }
}

void MatrixBatch::load(int64_t index, const Matrix& to) const { load(index, to.data); }

void MatrixBatch::store(int64_t index, const double* from) const {
  const auto size = static_cast<int64_t>(element_size(dtype_));
  const int64_t start = offset(index);
  for (int64_t i = 0; cols_ > 0 && i < rows_; ++i) {
    portable::store<double>(dtype_, from + i * cols_, cols_, data_ + (start + i * row_stride_) * size, col_stride_);
  }
}

void MatrixBatch::store(int64_t index, const Matrix& from) const { store(index, from.data); }

Error check_matrices(const char* op, const char* name, const Tensor& tensor, bool square) {
  ET_CHECK_OR_RETURN(is_floating(tensor.scalar_type()), InvalidType, "%s: %s is %s, must be floating", op, name,
                     to_string(tensor.scalar_type()));
  ET_CHECK_OR_RETURN(tensor.dim() >= 2, InvalidArgument, "%s: %s has shape %s, must be a matrix or a batch of matrices",
                     op, name, ShapeText(tensor.sizes()).text);
  ET_CHECK_OR_RETURN(!square || tensor.size(-1) == tensor.size(-2), InvalidArgument,
                     "%s: the matrices of %s are not square: %s", op, name, ShapeText(tensor.sizes()).text);
  return Error::Ok;
}

Error check_batch(const char* op, const char* name, const Tensor& tensor, int64_t rank, IntArrayRef batch) {
  const int64_t have = tensor.dim() - rank;
  const auto wanted = static_cast<int64_t>(batch.size());
  bool fits = have >= 0 && have <= wanted;
  for (int64_t d = 0; fits && d < have; ++d) {
    fits = tensor.size(d) == 1 || tensor.size(d) == batch[static_cast<size_t>(wanted - have + d)];
  }
  ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: %s of shape %s does not go with a batch of shape %s", op, name,
                     ShapeText(tensor.sizes()).text, ShapeText(batch).text);
  return Error::Ok;
}

// ---------------------------------------------------------------------------------------------------- triangular factors

namespace {

constexpr int64_t kPanel = 8;

// row[j] -= the sum over p of factors[p] * a(first + p, j) for j in [begin, end), one p after the other.
void subtract_rows(const Matrix& a, double* row, const double* factors, int64_t first, int64_t count, int64_t begin,
                   int64_t end) {
  int64_t p = 0;
  for (; p + 4 <= count; p += 4) {  // an element is loaded and stored once for four rows
    const double f0 = factors[p], f1 = factors[p + 1], f2 = factors[p + 2], f3 = factors[p + 3];
    const double *u0 = a[first + p], *u1 = a[first + p + 1], *u2 = a[first + p + 2], *u3 = a[first + p + 3];
    for (int64_t j = begin; j < end; ++j) {
      row[j] = (((row[j] - f0 * u0[j]) - f1 * u1[j]) - f2 * u2[j]) - f3 * u3[j];
    }
  }
  for (; p < count; ++p) {
    const double* u = a[first + p];
    for (int64_t j = begin; j < end; ++j) {
      row[j] -= factors[p] * u[j];
    }
  }
}

// The same for row and the one behind it, which share what is loaded of a; `others` are the factors of that one.
void subtract_from_two(const Matrix& a, double* row, const double* factors, const double* others, int64_t first,
                       int64_t count, int64_t begin, int64_t end) {
  double* const below = row + a.cols;
  int64_t p = 0;
  for (; p + 4 <= count; p += 4) {
    const double f0 = factors[p], f1 = factors[p + 1], f2 = factors[p + 2], f3 = factors[p + 3];
    const double g0 = others[p], g1 = others[p + 1], g2 = others[p + 2], g3 = others[p + 3];
    const double *u0 = a[first + p], *u1 = a[first + p + 1], *u2 = a[first + p + 2], *u3 = a[first + p + 3];
    for (int64_t j = begin; j < end; ++j) {
      const double v0 = u0[j], v1 = u1[j], v2 = u2[j], v3 = u3[j];
      row[j] = (((row[j] - f0 * v0) - f1 * v1) - f2 * v2) - f3 * v3;
      below[j] = (((below[j] - g0 * v0) - g1 * v1) - g2 * v2) - g3 * v3;
    }
  }
  if (p < count) {
    subtract_rows(a, row, factors + p, first + p, count - p, begin, end);
    subtract_rows(a, below, others + p, first + p, count - p, begin, end);
  }
}

}  // namespace

// A panel of columns at a time, so that the rest of the matrix is walked over once a panel and not once a column.
int64_t lu_factor(const Matrix& a, int64_t* pivots) {
  int64_t info = 0;
  const int64_t steps = std::min(a.rows, a.cols);
  for (int64_t start = 0; start < steps; start += kPanel) {
    const int64_t end = std::min(start + kPanel, steps);
    bool is_singular[kPanel] = {};
    for (int64_t k = start; k < end; ++k) {
      int64_t best = k;
      for (int64_t i = k + 1; i < a.rows; ++i) {
        best = std::fabs(a(i, k)) > std::fabs(a(best, k)) ? i : best;
      }
      pivots[k] = best;
      if (a(best, k) == 0.0) {
        info = info == 0 ? k + 1 : info;
        is_singular[k - start] = true;
        continue;
      }
      if (best != k) {
        std::swap_ranges(a[k], a[k] + a.cols, a[best]);
      }
      for (int64_t i = k + 1; i < a.rows; ++i) {
        const double factor = a(i, k) / a(k, k);
        a(i, k) = factor;
        for (int64_t j = k + 1; j < end; ++j) {
          a(i, j) -= factor * a(k, j);
        }
      }
    }
    const auto factors_of = [&](int64_t i, double* factors) {
      const int64_t count = std::min(i, end) - start;
      for (int64_t p = 0; p < count; ++p) {
        factors[p] = is_singular[p] ? 0.0 : a(i, start + p);
      }
      return count;
    };
    for (int64_t i = start + 1; i < a.rows; ++i) {
      double factors[kPanel], others[kPanel];
      const int64_t count = factors_of(i, factors);
      if (i >= end && i + 1 < a.rows) {
        factors_of(i + 1, others);
        subtract_from_two(a, a[i], factors, others, start, count, end, a.cols);
        ++i;
      } else {
        subtract_rows(a, a[i], factors, start, count, end, a.cols);
      }
    }
  }
  return info;
}

void triangular_solve(const Matrix& a, const Matrix& b, bool upper, bool transposed, bool unit) {
  const int64_t n = b.rows;
  const bool backward = upper != transposed;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = backward ? n - 1 - step : step;
    for (int64_t k = backward ? i + 1 : 0; k < (backward ? n : i); ++k) {
      const double factor = transposed ? a(k, i) : a(i, k);
      for (int64_t j = 0; j < b.cols; ++j) {
        b(i, j) -= factor * b(k, j);
      }
    }
    if (!unit) {
      for (int64_t j = 0; j < b.cols; ++j) {
        b(i, j) /= a(i, i);
      }
    }
  }
}

void lu_solve(const Matrix& lu, const int64_t* pivots, const Matrix& b, bool transposed) {
  const int64_t n = lu.rows;
  if (!transposed) {
    for (int64_t i = 0; i < n; ++i) {
      if (pivots[i] != i) {
        std::swap_ranges(b[i], b[i] + b.cols, b[pivots[i]]);
      }
    }
    triangular_solve(lu, b, false, false, true);
    triangular_solve(lu, b, true, false, false);
    return;
  }
  triangular_solve(lu, b, true, true, false);
  triangular_solve(lu, b, false, true, true);
  for (int64_t i = n - 1; i >= 0; --i) {
    if (pivots[i] != i) {
      std::swap_ranges(b[i], b[i] + b.cols, b[pivots[i]]);
    }
  }
}

// ------------------------------------------------------------------------------------------------------------ reflectors

namespace {

// Reflector number r of `a` (below its diagonal) on the columns of c from `first`.
void apply_reflector(const Matrix& a, double tau, int64_t r, const Matrix& c, int64_t first) {
  for (int64_t j = first; j < c.cols; ++j) {
    double dot = c(r, j);
    for (int64_t i = r + 1; i < c.rows; ++i) {
      dot += a(i, r) * c(i, j);
    }
    dot *= tau;
    c(r, j) -= dot;
    for (int64_t i = r + 1; i < c.rows; ++i) {
      c(i, j) -= dot * a(i, r);
    }
  }
}

}  // namespace

void qr_factor(const Matrix& a, double* tau) {
  for (int64_t k = 0; k < std::min(a.rows, a.cols); ++k) {
    double below = 0.0;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      below = std::hypot(below, a(i, k));
    }
    tau[k] = 0.0;
    if (below == 0.0) {
      continue;
    }
    const double alpha = a(k, k);
    const double beta = -std::copysign(std::hypot(alpha, below), alpha);
    tau[k] = (beta - alpha) / beta;
    for (int64_t i = k + 1; i < a.rows; ++i) {
      a(i, k) /= alpha - beta;
    }
    a(k, k) = beta;
    apply_reflector(a, tau[k], k, a, k + 1);
  }
}

void apply_reflectors(const Matrix& a, const double* tau, int64_t k, const Matrix& c, bool transposed) {
  for (int64_t step = 0; step < k; ++step) {
    const int64_t r = transposed ? step : k - 1 - step;
    if (tau[r] == 0.0) {
      continue;
    }
    apply_reflector(a, tau[r], r, c, 0);
  }
}

// ----------------------------------------------------------------------------------------------------- Jacobi's rotations

void rotate_rows(const Matrix& a, int64_t p, int64_t q, Rotation r) {
  double* const upper = a[p];
  double* const lower = a[q];
  for (int64_t j = 0; j < a.cols; ++j) {
    const double x = upper[j];
    const double y = lower[j];
    upper[j] = r.c * x - r.s * y;
    lower[j] = r.s * x + r.c * y;
  }
}

namespace {

constexpr int kMostSweeps = 60;
constexpr double kSmall = 1e-15;

// The rotation that makes [[app, apq], [apq, aqq]] diagonal.
Rotation diagonalising(double app, double apq, double aqq) {
  const double theta = (aqq - app) / (2.0 * apq);
  const double t = std::copysign(1.0, theta) / (std::fabs(theta) + std::hypot(theta, 1.0));
  const double c = 1.0 / std::hypot(t, 1.0);
  return {c, t * c};
}

void rotate_columns(const Matrix& a, int64_t p, int64_t q, Rotation r) {
  for (int64_t i = 0; i < a.rows; ++i) {
    const double x = a(i, p);
    const double y = a(i, q);
    a(i, p) = r.c * x - r.s * y;
    a(i, q) = r.s * x + r.c * y;
  }
}

void swap_columns(const Matrix& a, int64_t p, int64_t q) {
  for (int64_t i = 0; i < a.rows; ++i) {
    std::swap(a(i, p), a(i, q));
  }
}

// Makes the columns of q from `from` on orthonormal to all before: unit vectors, the part that lies in the others taken off.
void complete_basis(const Matrix& q, int64_t from) {
  for (int64_t j = from; j < q.cols; ++j) {
    double best_norm = -1.0;
    int64_t best = 0;
    for (int64_t unit = 0; unit < q.rows; ++unit) {  // the unit vector that the columns so far cover least
      double covered = 0.0;
      for (int64_t k = 0; k < j; ++k) {
        covered += q(unit, k) * q(unit, k);
      }
      if (1.0 - covered > best_norm) {
        best_norm = 1.0 - covered;
        best = unit;
      }
    }
    for (int64_t i = 0; i < q.rows; ++i) {
      q(i, j) = i == best ? 1.0 : 0.0;
    }
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t k = 0; k < j; ++k) {
        double dot = 0.0;
        for (int64_t i = 0; i < q.rows; ++i) {
          dot += q(i, k) * q(i, j);
        }
        for (int64_t i = 0; i < q.rows; ++i) {
          q(i, j) -= dot * q(i, k);
        }
      }
    }
    double norm = 0.0;
    for (int64_t i = 0; i < q.rows; ++i) {
      norm = std::hypot(norm, q(i, j));
    }
    for (int64_t i = 0; i < q.rows; ++i) {
      q(i, j) /= norm;
    }
  }
}

// Turns columns of a (m >= n) until they are orthogonal; v collects the rotations.
Error orthogonalise_columns(KernelContext& context, const Matrix& a, const Matrix& v) {
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p < a.cols; ++p) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "singular values: cancelled");
      for (int64_t q = p + 1; q < a.cols; ++q) {
        double pp = 0.0, pq = 0.0, qq = 0.0;
        for (int64_t i = 0; i < a.rows; ++i) {
          pp += a(i, p) * a(i, p);
          pq += a(i, p) * a(i, q);
          qq += a(i, q) * a(i, q);
        }
        if (!(std::fabs(pq) > kSmall * std::sqrt(pp * qq)) || std::fabs(pq) < 1e-300) {
          continue;
        }
        const Rotation r = diagonalising(pp, pq, qq);
        rotate_columns(a, p, q, r);
        rotate_columns(v, p, q, r);
        rotated = true;
      }
    }
    if (!rotated) {
      break;
    }
  }
  return Error::Ok;
}

}  // namespace

Error singular_values(KernelContext& context, const Matrix& a, double* s, const Matrix& u, const Matrix& vt) {
  const bool wide = a.rows < a.cols;
  const int64_t n = std::min(a.rows, a.cols);
  const int64_t m = std::max(a.rows, a.cols);
  constexpr int64_t kLarge = 32;
  if (n >= kLarge) {
    ET_TRY(const bool is_done, singular_values_of_large(context, a, s, u, vt));
    if (is_done) {
      return Error::Ok;
    }
  }
  ET_TRY(Matrix w, make_matrix(context, m, n));
  ET_TRY(Matrix v, make_matrix(context, n, n));
  if (wide) {
    transpose_matrix(a, w);
  } else {
    copy_matrix(a, w);
  }
  const int exponent = normalise(w);  // squares and their products stay numbers
  set_identity(v);
  ET_RETURN_IF_ERROR(orthogonalise_columns(context, w, v));
  for (int64_t j = 0; j < n; ++j) {
    s[j] = 0.0;
    for (int64_t i = 0; i < m; ++i) {
      s[j] = std::hypot(s[j], w(i, j));
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    const int64_t best = std::max_element(s + j, s + n) - s;
    std::swap(s[j], s[best]);
    swap_columns(w, j, best);
    swap_columns(v, j, best);
  }
  const auto restore = [&] { std::for_each(s, s + n, [exponent](double& x) { x = std::ldexp(x, exponent); }); };
  if (u.data == nullptr) {
    restore();
    return Error::Ok;
  }
  // Left vectors are the columns, made unit length; where the matrix has no such column any orthonormal ones do.
  const int64_t wanted = wide ? vt.rows : u.cols;
  ET_TRY(Matrix left, make_matrix(context, m, wanted));
  int64_t rank = 0;
  while (rank < n && s[rank] > 0.0 && s[rank] > s[0] * 1e-14) {
    for (int64_t i = 0; i < m; ++i) {
      left(i, rank) = w(i, rank) / s[rank];
    }
    ++rank;
  }
  complete_basis(left, rank);
  if (wide) {  // aᵀ = left s vᵀ
    transpose_matrix(left, vt);
    copy_matrix(v, u);
  } else {
    copy_matrix(left, u);
    transpose_matrix(v, vt);
  }
  restore();
  return Error::Ok;
}

void symmetric_eigen(const Matrix& a, double* values, const Matrix& v) {
  const int64_t n = a.rows;
  set_identity(v);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double off = 0.0, all = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        all += a(i, j) * a(i, j);
        off += i == j ? 0.0 : a(i, j) * a(i, j);
      }
    }
    if (!(off > 1e-32 * all)) {
      break;
    }
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (std::fabs(a(p, q)) < 1e-300) {
          continue;
        }
        const Rotation r = diagonalising(a(p, p), a(p, q), a(q, q));
        rotate_columns(a, p, q, r);
        rotate_rows(a, p, q, r);
        rotate_columns(v, p, q, r);
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    values[i] = a(i, i);
  }
  for (int64_t j = 0; j < n; ++j) {
    const int64_t best = std::min_element(values + j, values + n) - values;
    std::swap(values[j], values[best]);
    swap_columns(v, j, best);
  }
}

}  // namespace et::kernels::portable
