// Factors of symmetric matrices that need not be positive: A = P L D Lᵀ Pᵀ with blocks of one or two rows in D.
#include "kernels/portable/op_linalg_ldl.h"

#include <algorithm>
#include <cmath>

#include "kernels/portable/large_matrices.h"
#include "kernels/portable/symmetric_exchange.h"

namespace et::kernels::portable {
namespace {

// The factors in place, in the lower triangle, with pivots as LAPACK's sytrf numbers them. A pivot is p for one row
// that was exchanged with row p (from 1), -p twice for a block of two whose second row was. Returns 0 or the number of
// the first block that is zero. Source: J. Bunch, L. Kaufman, "Some stable methods for calculating inertia and solving
// symmetric linear systems", 1977.
Result<int64_t> ldl_factor(MatrixWork& work, const Matrix& a, double* pivots) {
  const double alpha = (1.0 + std::sqrt(17.0)) / 8.0;
  const int64_t n = a.rows;
  if (const LargeMatrices* const methods = work.methods_for(n)) {
    return methods->ldl_factor(work, a, pivots);
  }
  int64_t info = 0;
  for (int64_t k = 0; k < n;) {
    int64_t largest = k;
    double below = 0.0;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::fabs(a(i, k)) > below) {
        below = std::fabs(a(i, k));
        largest = i;
      }
    }
    const double diagonal = std::fabs(a(k, k));
    int64_t pivot = k;
    int64_t width = 1;
    if (std::max(diagonal, below) == 0.0 || std::isnan(diagonal)) {
      info = info == 0 ? k + 1 : info;
      pivots[k] = static_cast<double>(k + 1);
      ++k;
      continue;
    }
    if (diagonal < alpha * below) {
      double row = 0.0;
      for (int64_t j = k; j < n; ++j) {
        if (j != largest) {
          row = std::max(row, std::fabs(j < largest ? a(largest, j) : a(j, largest)));
        }
      }
      if (diagonal >= alpha * below * (below / row)) {
        pivot = k;
      } else if (std::fabs(a(largest, largest)) >= alpha * row) {
        pivot = largest;
      } else {
        pivot = largest;
        width = 2;
      }
    }
    if (pivot != k + width - 1) {
      exchange_symmetric(a, k, k + width - 1, pivot);
    }
    if (width == 1) {
      for (int64_t j = k + 1; j < n; ++j) {
        const double factor = a(j, k) / a(k, k);
        for (int64_t i = j; i < n; ++i) {
          a(i, j) -= a(i, k) * factor;
        }
      }
      for (int64_t i = k + 1; i < n; ++i) {
        a(i, k) /= a(k, k);
      }
      pivots[k] = static_cast<double>(pivot + 1);
    } else {
      const double off = a(k + 1, k);
      const double first = a(k + 1, k + 1) / off;
      const double second = a(k, k) / off;
      const double scale = 1.0 / (first * second - 1.0) / off;
      for (int64_t j = k + 2; j < n; ++j) {
        const double left = scale * (first * a(j, k) - a(j, k + 1));
        const double right = scale * (second * a(j, k + 1) - a(j, k));
        for (int64_t i = j; i < n; ++i) {
          a(i, j) -= a(i, k) * left + a(i, k + 1) * right;
        }
        a(j, k) = left;
        a(j, k + 1) = right;
      }
      pivots[k] = pivots[k + 1] = -static_cast<double>(pivot + 1);
    }
    k += width;
  }
  return info;
}

// Rows exist, and blocks of two are whole.
Error check_pivots(const char* op, const double* pivots, int64_t n) {
  for (int64_t k = 0; k < n; k += pivots[k] > 0 ? 1 : 2) {
    const double place = std::fabs(pivots[k]);
    const bool is_whole = pivots[k] > 0 || (k + 1 < n && pivots[k + 1] == pivots[k]);
    ET_CHECK_OR_RETURN(place >= 1 && place <= static_cast<double>(n) && is_whole, InvalidArgument,
                       "%s: pivot %" PRId64 " is %g, which is no row, or half of a block", op, k, pivots[k]);
  }
  return Error::Ok;
}

// b becomes A⁻¹ b. The rows of a's columns, each in the order that it was made in, are put into the last one first.
Error ldl_solve(MatrixWork& work, const Matrix& a, const double* pivots, const Matrix& b) {
  const int64_t n = a.rows;
  const auto width_of = [pivots](int64_t k) { return pivots[k] > 0 ? 1 : 2; };
  const auto swap_rows = [](const Matrix& m, int64_t p, int64_t q, int64_t count) {
    if (p != q) {
      std::swap_ranges(m[p], m[p] + count, m[q]);
    }
  };
  ET_TRY(double* const beside,
         work.numbers(n));  // of the blocks of two: their numbers off the diagonal, which are not the factor's
  for (int64_t k = 0; k < n; k += width_of(k)) {
    const int64_t place = k + width_of(k) - 1, pivot = static_cast<int64_t>(std::fabs(pivots[k])) - 1;
    if (place > k) {
      beside[k] = a(place, k);
      a(place, k) = 0.0;
    }
    swap_rows(a, place, pivot, k);
    swap_rows(b, place, pivot, b.cols);
  }
  ET_RETURN_IF_ERROR(triangular_solve(work, a, b, false, false, true));
  for (int64_t k = 0; k < n; k += width_of(k)) {
    if (width_of(k) == 1) {
      for (int64_t c = 0; c < b.cols; ++c) {
        b(k, c) /= a(k, k);
      }
      continue;
    }
    const double off = beside[k];
    const double first = a(k, k) / off;
    const double second = a(k + 1, k + 1) / off;
    const double scale = first * second - 1.0;
    for (int64_t c = 0; c < b.cols; ++c) {
      const double x = b(k, c) / off;
      const double y = b(k + 1, c) / off;
      b(k, c) = (second * x - y) / scale;
      b(k + 1, c) = (first * y - x) / scale;
    }
  }
  ET_RETURN_IF_ERROR(triangular_solve(work, a, b, false, true, true));
  for (int64_t k = n - 1; k >= 0; k -= width_of(k)) {  // both rows of a block have the same pivot
    swap_rows(b, k, static_cast<int64_t>(std::fabs(pivots[k])) - 1, b.cols);
  }
  return Error::Ok;
}

}  // namespace

Error linalg_ldl_factor_ex_out(KernelContext& context, const Tensor& self, bool, bool check_errors, Tensor& ld,
                               Tensor& pivots, Tensor& info) {
  constexpr const char* kOp = "aten::linalg_ldl_factor_ex";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "self", self, true));
  const IntArrayRef batch = batch_of(self);
  const int64_t n = self.size(-1);
  ET_RETURN_IF_ERROR(resize_tensor(context, ld, self.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, pivots, joined(batch, {n})));
  ET_RETURN_IF_ERROR(resize_tensor(context, info, batch));
  ET_TRY(Matrix a, make_matrix(context, n, n));
  ET_TRY(double* exchanged, make_vector(context, n));
  MatrixWork work(context, ld);
  const MatrixBatch from(self, batch);
  for (int64_t b = 0; b < from.count(); ++b) {
    from.load(b, a);
    ET_TRY(const int64_t failed, ldl_factor(work, a, exchanged));
    ET_RETURN_IF_ERROR(check_pivot(kOp, check_errors, b, failed));
    for (int64_t i = 0; i < n; ++i) {
      std::fill(a[i] + i + 1, a[i] + n, 0.0);
    }
    MatrixBatch(ld, batch).store(b, a);
    MatrixBatch(pivots, batch, 1).store(b, exchanged);
    MatrixBatch(info, batch, 0).store_number(b, static_cast<double>(failed));
  }
  return Error::Ok;
}

Error linalg_ldl_solve_out(KernelContext& context, const Tensor& ld, const Tensor& pivots, const Tensor& b, bool,
                           Tensor& out) {
  constexpr const char* kOp = "aten::linalg_ldl_solve";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "LD", ld, true));
  ET_RETURN_IF_ERROR(check_matrices(kOp, "B", b, false));
  const int64_t n = ld.size(-1);
  ET_CHECK_OR_RETURN(b.size(-2) == n && pivots.dim() == ld.dim() - 1 && pivots.size(-1) == n, InvalidArgument,
                     "%s: LD %s, pivots %s and B %s do not fit together", kOp, ShapeText(ld.sizes()).text,
                     ShapeText(pivots.sizes()).text, ShapeText(b.sizes()).text);
  Sizes batch;
  ET_RETURN_IF_ERROR(broadcast_sizes(kOp, batch_of(ld), batch_of(b), &batch));
  ET_RETURN_IF_ERROR(check_batch(kOp, "pivots", pivots, 1, batch));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, joined(batch, {n, b.size(-1)})));
  ET_TRY(Matrix a, make_matrix(context, n, n));
  ET_TRY(Matrix x, make_matrix(context, n, b.size(-1)));
  ET_TRY(double* exchanged, make_vector(context, n));
  MatrixWork work(context, out);
  const MatrixBatch from(ld, batch), by(pivots, batch, 1), right(b, batch), to(out, batch);
  for (int64_t i = 0; i < to.count({&out}); ++i) {
    from.load(i, a);
    by.load(i, exchanged);
    ET_RETURN_IF_ERROR(check_pivots(kOp, exchanged, n));
    right.load(i, x);
    ET_RETURN_IF_ERROR(ldl_solve(work, a, exchanged, x));
    to.store(i, x);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
