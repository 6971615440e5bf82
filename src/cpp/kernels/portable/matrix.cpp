#include "kernels/portable/matrix.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/checked_math.h"
#include "kernels/portable/large_matrices.h"

namespace et::kernels::portable {
namespace {

thread_local const LargeMatrices* t_lent = nullptr;

}  // namespace

LentMethods::LentMethods(const LargeMatrices& methods) : before_(std::exchange(t_lent, &methods)) {}
LentMethods::~LentMethods() { t_lent = before_; }

MatrixWork::MatrixWork(KernelContext& context, const Tensor& result)
    : context_(context), methods_(t_lent), in_float_(result.scalar_type() != ScalarType::Double) {}

const LargeMatrices* MatrixWork::methods_for(int64_t n) const { return n >= kLargeMatrix ? methods_ : nullptr; }

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

void mirror(const Matrix& a, bool upper) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      (upper ? a(i, j) : a(j, i)) = upper ? a(j, i) : a(i, j);
    }
  }
}

void transpose_matrix(const Matrix& from, const Matrix& to) {
  constexpr int64_t kTile = 16;  // rows whose lines stay in the cache
  for (int64_t top = 0; from.cols > 0 && top < from.rows; top += kTile) {
    const int64_t end = std::min(top + kTile, from.rows);
    for (int64_t j = 0; j < from.cols; ++j) {
      for (int64_t i = top; i < end; ++i) {
        to(j, i) = from(i, j);
      }
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

Error multiply(MatrixWork& work, const Matrix& a, const Matrix& b, const Matrix& c) {
  if (const LargeMatrices* const methods = work.methods_for(std::min({a.rows, a.cols, b.cols}))) {
    return methods->multiply(work, a, b, c);
  }
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
  return Error::Ok;
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

void MatrixBatch::load_row(int64_t index, int64_t row, double* to) const {
  const int64_t start = offset(index) + row * row_stride_;
  portable::load<double>(dtype_, data_ + start * static_cast<int64_t>(element_size(dtype_)), col_stride_, cols_, to);
}

void MatrixBatch::store_row(int64_t index, int64_t row, const double* from) const {
  const int64_t start = offset(index) + row * row_stride_;
  portable::store<double>(dtype_, from, cols_, data_ + start * static_cast<int64_t>(element_size(dtype_)), col_stride_);
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

Error check_pivot(const char* op, bool matters, int64_t b, int64_t zero) {
  ET_CHECK_OR_RETURN(zero == 0 || !matters, InvalidArgument,
                     "%s: matrix %" PRId64 " is singular: pivot %" PRId64 " is zero", op, b, zero);
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

// ---------------------------------------------------------------------------------------------------- triangular
// factors

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
Result<int64_t> lu_factor(MatrixWork& work, const Matrix& a, int64_t* pivots) {
  if (const LargeMatrices* const methods = work.methods_for(std::min(a.rows, a.cols))) {
    return methods->lu_factor(work, a, pivots);
  }
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

Error triangular_solve(MatrixWork& work, const Matrix& a, const Matrix& b, bool upper, bool transposed, bool unit) {
  if (const LargeMatrices* const methods = work.methods_for(std::min(a.rows, a.cols))) {
    return methods->triangular_solve(work, a, b, upper, transposed, unit);
  }
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
  return Error::Ok;
}

Error lu_solve(MatrixWork& work, const Matrix& lu, const int64_t* pivots, const Matrix& b, bool transposed) {
  const int64_t n = lu.rows;
  if (!transposed) {
    for (int64_t i = 0; i < n; ++i) {
      if (pivots[i] != i) {
        std::swap_ranges(b[i], b[i] + b.cols, b[pivots[i]]);
      }
    }
    ET_RETURN_IF_ERROR(triangular_solve(work, lu, b, false, false, true));
    return triangular_solve(work, lu, b, true, false, false);
  }
  ET_RETURN_IF_ERROR(triangular_solve(work, lu, b, true, true, false));
  ET_RETURN_IF_ERROR(triangular_solve(work, lu, b, false, true, true));
  for (int64_t i = n - 1; i >= 0; --i) {
    if (pivots[i] != i) {
      std::swap_ranges(b[i], b[i] + b.cols, b[pivots[i]]);
    }
  }
  return Error::Ok;
}

// Row by row, each without what the rows above it give.
Result<int64_t> cholesky_factor(MatrixWork& work, const Matrix& a) {
  const int64_t n = a.rows;
  if (const LargeMatrices* const methods = work.methods_for(n)) {
    return methods->cholesky_factor(work, a);
  }
  for (int64_t i = 0; i < n; ++i) {
    double* const row = a[i];
    for (int64_t k = 0; k < i; ++k) {
      const double factor = a(k, i);
      const double* const above = a[k];
      for (int64_t j = i; j < n; ++j) {
        row[j] -= factor * above[j];
      }
    }
    if (!(row[i] > 0.0)) {
      return i + 1;
    }
    const double root = std::sqrt(row[i]);
    for (int64_t j = i; j < n; ++j) {
      row[j] /= root;
    }
    row[i] = root;
  }
  return int64_t{0};
}

// ------------------------------------------------------------------------------------------------------------
// reflectors

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

Error qr_factor(MatrixWork& work, const Matrix& a, double* tau) {
  if (const LargeMatrices* const methods = work.methods_for(std::min(a.rows, a.cols))) {
    return methods->qr_factor(work, a, tau);
  }
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
  return Error::Ok;
}

Error apply_reflectors(MatrixWork& work, const Matrix& a, const double* tau, int64_t k, const Matrix& c,
                       bool transposed, bool onto_identity) {
  if (const LargeMatrices* const methods = work.methods_for(std::min(k, c.cols))) {
    return methods->apply_reflectors(work, a, tau, k, c, transposed, onto_identity);
  }
  for (int64_t step = 0; step < k; ++step) {
    const int64_t r = transposed ? step : k - 1 - step;
    if (tau[r] == 0.0) {
      continue;
    }
    apply_reflector(a, tau[r], r, c, onto_identity ? r : 0);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
