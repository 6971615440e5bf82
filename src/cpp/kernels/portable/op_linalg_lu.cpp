// LU factors and what is computed with them: solutions, inverses, determinants.
#include "kernels/portable/op_linalg_lu.h"

#include <algorithm>
#include <cmath>

#include "kernels/portable/matrix.h"

namespace et::kernels::portable {
namespace {

/// Workspace of one factorisation, and where its results go.
struct Factors {
  MatrixWork work;
  Matrix lu;
  int64_t* pivots;
  double* numbered;  // the pivots as LAPACK numbers them, from 1

  /// For results like `result`.
  static Result<Factors> make(KernelContext& context, const Tensor& result, int64_t rows, int64_t cols,
                              bool pivots_only = false) {
    const int64_t n = std::min(rows, cols);
    ET_TRY(Matrix lu, make_matrix(context, pivots_only ? 0 : rows, cols));
    ET_TRY(double* pivots, make_vector(context, n));  // 8 bytes each, as an int64
    ET_TRY(double* numbered, make_vector(context, n));
    return Factors{MatrixWork(context, result), lu, reinterpret_cast<int64_t*>(pivots), numbered};
  }
  Result<int64_t> factor() {
    ET_TRY(const int64_t info, lu_factor(work, lu, pivots));
    for (int64_t i = 0; i < std::min(lu.rows, lu.cols); ++i) {
      numbered[i] = static_cast<double>(pivots[i] + 1);
    }
    return info;
  }
  /// Replaces b by the solution.
  Error solve(const Matrix& b, bool transposed) { return lu_solve(work, lu, pivots, b, transposed); }
  /// Reads pivots that a tensor holds. Errors: InvalidArgument for a row that does not exist.
  Error read_pivots(const char* op, const MatrixBatch& from, int64_t index, int64_t rows) {
    from.load(index, numbered);
    for (int64_t i = 0; i < from.rows(); ++i) {
      ET_CHECK_OR_RETURN(numbered[i] >= 1 && numbered[i] <= static_cast<double>(rows), InvalidArgument,
                         "%s: pivot %" PRId64 " is %" PRId64 ", must be in [1, %" PRId64 "]", op, i,
                         static_cast<int64_t>(numbered[i]), rows);
      pivots[i] = static_cast<int64_t>(numbered[i]) - 1;
    }
    return Error::Ok;
  }
};

Error resize_factors(KernelContext& context, const Tensor& a, Tensor& lu, Tensor& pivots) {
  ET_RETURN_IF_ERROR(resize_tensor(context, lu, a.sizes()));
  return resize_tensor(context, pivots, joined(batch_of(a), {std::min(a.size(-1), a.size(-2))}));
}

// The determinant of a factored matrix, and its sign and logarithm.
struct Determinant {
  double sign = 1.0;
  double log = 0.0;
  double value = 1.0;

  explicit Determinant(const Factors& factors) {
    for (int64_t i = 0; i < factors.lu.rows; ++i) {
      const double pivot = factors.lu(i, i);
      const double swap = factors.pivots[i] == i ? 1.0 : -1.0;
      value *= pivot * swap;
      sign *= pivot == 0.0 ? 0.0 : std::copysign(1.0, pivot) * swap;
      log += std::log(std::fabs(pivot));
    }
  }
};

// Factors every matrix of a batch into `lu` and `pivots`, and calls f with its number and its determinant.
template <typename F>
Error for_each_determinant(KernelContext& context, const Tensor& a, Tensor& lu, Tensor& pivots, F f) {
  ET_RETURN_IF_ERROR(resize_factors(context, a, lu, pivots));
  ET_TRY(Factors factors, Factors::make(context, lu, a.size(-1), a.size(-1)));
  const IntArrayRef batch = batch_of(a);
  const MatrixBatch from(a, batch);
  for (int64_t b = 0; b < from.count(); ++b) {
    from.load(b, factors.lu);
    ET_TRY([[maybe_unused]] const int64_t failed, factors.factor());
    f(b, Determinant(factors));
    MatrixBatch(lu, batch).store(b, factors.lu);
    MatrixBatch(pivots, batch, 1).store(b, factors.numbered);
  }
  return Error::Ok;
}

// Writes row exchanges, as P of A = P L U. line: [m] scratch, order: [m] scratch.
void store_permutation(const int64_t* pivots, int64_t n, const MatrixBatch& p, int64_t index, double* order,
                       double* line) {
  const int64_t m = p.rows();
  for (int64_t i = 0; i < m; ++i) {
    order[i] = static_cast<double>(i);
  }
  for (int64_t i = n - 1; i >= 0; --i) {  // backwards, so that order[row] is the column
    std::swap(order[i], order[pivots[i]]);
  }
  std::fill_n(line, m, 0.0);
  for (int64_t i = 0; i < m; ++i) {
    double& place = line[static_cast<int64_t>(order[i])];
    place = 1.0;
    p.store_row(index, i, line);
    place = 0.0;
  }
}

// Row `row` of both triangles, from that row of the factors. line: [max(m, n)] scratch.
void store_triangles(const double* lu, int64_t row, const MatrixBatch& lower, const MatrixBatch& upper, int64_t index,
                     double* line) {
  const int64_t k = lower.cols(), n = upper.cols();
  if (k > 0) {
    const int64_t below = std::min(row, k);
    std::copy_n(lu, below, line);
    std::fill(line + below, line + k, 0.0);
    if (row < k) {
      line[row] = 1.0;
    }
    lower.store_row(index, row, line);
  }
  if (row < upper.rows() && n > 0) {
    const int64_t before = std::min(row, n);
    std::fill_n(line, before, 0.0);
    std::copy(lu + before, lu + n, line + before);
    upper.store_row(index, row, line);
  }
}

// P, L and U of factors in `lu_of`; with `factor_first`, of the matrices there.
Error unpacked(KernelContext& context, const char* op, const Tensor& a, const Tensor* pivots, bool with_data,
               bool with_pivots, Tensor& p, Tensor& l, Tensor& u) {
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const IntArrayRef batch = batch_of(a);
  if (pivots != nullptr && with_pivots) {
    ET_RETURN_IF_ERROR(check_batch(op, "LU_pivots", *pivots, 1, batch));
  }
  if (with_pivots) {
    ET_RETURN_IF_ERROR(resize_tensor(context, p, joined(batch, {m, m})));
  }
  if (with_data) {
    ET_RETURN_IF_ERROR(resize_tensor(context, l, joined(batch, {m, k})));
    ET_RETURN_IF_ERROR(resize_tensor(context, u, joined(batch, {k, n})));
  }
  const bool factors_first = pivots == nullptr;
  ET_TRY(Factors factors, Factors::make(context, a, m, n, !factors_first));
  ET_TRY(double* order, make_vector(context, m));
  ET_TRY(double* line, make_vector(context, std::max(m, n)));
  ET_TRY(double* row, make_vector(context, n));
  const MatrixBatch from(a, batch);
  const int64_t count = from.count({with_pivots ? &p : nullptr, with_data ? &l : nullptr, with_data ? &u : nullptr});
  for (int64_t b = 0; b < count; ++b) {
    if (factors_first) {
      from.load(b, factors.lu);
      ET_TRY([[maybe_unused]] const int64_t failed, factors.factor());
    } else if (with_pivots) {
      ET_RETURN_IF_ERROR(factors.read_pivots(op, MatrixBatch(*pivots, batch, 1), b, m));
    }
    if (with_pivots) {
      store_permutation(factors.pivots, k, MatrixBatch(p, batch), b, order, line);
    }
    if (!with_data) {
      continue;
    }
    const MatrixBatch lower(l, batch), upper(u, batch);
    for (int64_t i = 0; i < m; ++i) {
      if (!factors_first) {
        from.load_row(b, i, row);
      }
      store_triangles(factors_first ? factors.lu[i] : row, i, lower, upper, b, line);
    }
  }
  return Error::Ok;
}

}  // namespace

Error linalg_lu_factor_ex_out(KernelContext& context, const Tensor& a, bool pivot, bool check_errors, Tensor& lu,
                              Tensor& pivots, Tensor& info) {
  constexpr const char* kOp = "aten::linalg_lu_factor_ex";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "A", a, false));
  ET_CHECK_OR_RETURN(pivot, NotSupported, "%s: pivot=False is not there, as in PyTorch on the CPU", kOp);
  ET_RETURN_IF_ERROR(resize_factors(context, a, lu, pivots));
  const IntArrayRef batch = batch_of(a);
  ET_RETURN_IF_ERROR(resize_tensor(context, info, batch));
  ET_TRY(Factors factors, Factors::make(context, lu, a.size(-2), a.size(-1)));
  const MatrixBatch from(a, batch);
  for (int64_t b = 0; b < from.count(); ++b) {
    from.load(b, factors.lu);
    ET_TRY(const int64_t failed, factors.factor());
    ET_RETURN_IF_ERROR(check_pivot(kOp, check_errors, b, failed));
    MatrixBatch(info, batch, 0).store_number(b, static_cast<double>(failed));
    MatrixBatch(lu, batch).store(b, factors.lu);
    MatrixBatch(pivots, batch, 1).store(b, factors.numbered);
  }
  return Error::Ok;
}

Error linalg_lu_out(KernelContext& context, const Tensor& a, bool pivot, Tensor& p, Tensor& l, Tensor& u) {
  constexpr const char* kOp = "aten::linalg_lu";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "A", a, false));
  ET_CHECK_OR_RETURN(pivot, NotSupported, "%s: pivot=False is not there, as in PyTorch on the CPU", kOp);
  return unpacked(context, kOp, a, nullptr, true, true, p, l, u);
}

Error lu_unpack_out(KernelContext& context, const Tensor& lu_data, const Tensor& lu_pivots, bool unpack_data,
                    bool unpack_pivots, Tensor& p, Tensor& l, Tensor& u) {
  constexpr const char* kOp = "aten::lu_unpack";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "LU_data", lu_data, false));
  ET_CHECK_OR_RETURN(!unpack_pivots || (lu_pivots.dim() == lu_data.dim() - 1 &&
                                        lu_pivots.size(-1) == std::min(lu_data.size(-1), lu_data.size(-2))),
                     InvalidArgument, "%s: LU_pivots of shape %s do not belong to LU_data of shape %s", kOp,
                     ShapeText(lu_pivots.sizes()).text, ShapeText(lu_data.sizes()).text);
  return unpacked(context, kOp, lu_data, &lu_pivots, unpack_data, unpack_pivots, p, l, u);
}

Error linalg_lu_solve_out(KernelContext& context, const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left,
                          bool adjoint, Tensor& out) {
  constexpr const char* kOp = "aten::linalg_lu_solve";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "LU", lu, true));
  ET_RETURN_IF_ERROR(check_matrices(kOp, "B", b, false));
  const int64_t n = lu.size(-1);
  ET_CHECK_OR_RETURN(b.size(left ? -2 : -1) == n && pivots.dim() == lu.dim() - 1 && pivots.size(-1) == n,
                     InvalidArgument, "%s: LU %s, pivots %s and B %s do not fit together", kOp,
                     ShapeText(lu.sizes()).text, ShapeText(pivots.sizes()).text, ShapeText(b.sizes()).text);
  Sizes batch;
  ET_RETURN_IF_ERROR(broadcast_sizes(kOp, batch_of(lu), batch_of(b), &batch));
  ET_RETURN_IF_ERROR(check_batch(kOp, "pivots", pivots, 1, batch));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, joined(batch, {b.size(-2), b.size(-1)})));
  ET_TRY(Factors factors, Factors::make(context, out, n, n));
  ET_TRY(Matrix given, make_matrix(context, b.size(-2), b.size(-1)));
  ET_TRY(Matrix x, make_matrix(context, n, left ? b.size(-1) : b.size(-2)));
  const MatrixBatch from(lu, batch), exchanges(pivots, batch, 1), right(b, batch), to(out, batch);
  for (int64_t i = 0; i < to.count({&out}); ++i) {
    from.load(i, factors.lu);
    ET_RETURN_IF_ERROR(factors.read_pivots(kOp, exchanges, i, n));
    right.load(i, given);
    if (left) {
      ET_RETURN_IF_ERROR(factors.solve(given, adjoint));
    } else {  // X A = B is Aᵀ Xᵀ = Bᵀ
      transpose_matrix(given, x);
      ET_RETURN_IF_ERROR(factors.solve(x, !adjoint));
      transpose_matrix(x, given);
    }
    to.store(i, given);
  }
  return Error::Ok;
}

Error linalg_solve_ex_result(KernelContext& context, const Tensor& a, const Tensor& b, bool left, bool check_errors,
                             Tensor& result, Tensor& lu, Tensor& pivots, Tensor& info) {
  constexpr const char* kOp = "aten::_linalg_solve_ex";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "A", a, true));
  const int64_t n = a.size(-1);
  bool is_vector = b.dim() == 1;
  if (b.dim() == a.dim() - 1) {
    is_vector = true;
    for (int64_t d = 0; d < b.dim(); ++d) {
      is_vector = is_vector && b.size(d) == a.size(d);
    }
  }
  ET_CHECK_OR_RETURN((is_vector || b.dim() >= 2) && b.size(is_vector || !left ? -1 : -2) == n, InvalidArgument,
                     "%s: A %s and B %s do not fit together", kOp, ShapeText(a.sizes()).text,
                     ShapeText(b.sizes()).text);
  const int64_t rank = is_vector ? 1 : 2;
  Sizes batch;
  ET_RETURN_IF_ERROR(broadcast_sizes(kOp, batch_of(a), batch_of(b, rank), &batch));
  const int64_t rows = b.size(-rank), cols = is_vector ? 1 : b.size(-1);
  ET_RETURN_IF_ERROR(resize_tensor(context, result, is_vector ? joined(batch, {rows}) : joined(batch, {rows, cols})));
  ET_RETURN_IF_ERROR(resize_factors(context, a, lu, pivots));
  ET_RETURN_IF_ERROR(resize_tensor(context, info, batch_of(a)));
  ET_TRY(Factors factors, Factors::make(context, result, n, n));
  ET_TRY(Matrix given, make_matrix(context, rows, cols));
  ET_TRY(Matrix x, make_matrix(context, cols, rows));
  const bool has_elements = result.numel() > 0;
  batch = has_elements ? batch : Sizes(batch_of(a));  // right sides of nothing may be more than there is time for
  const MatrixBatch from(a, batch), right(b, batch, rank), to(result, batch, rank);
  for (int64_t i = 0; i < from.count({&lu, &info}); ++i) {
    from.load(i, factors.lu);
    ET_TRY(const int64_t failed, factors.factor());
    ET_RETURN_IF_ERROR(check_pivot(kOp, check_errors, i, failed));
    MatrixBatch(info, batch, 0).store_number(i, static_cast<double>(failed));
    MatrixBatch(lu, batch).store(i, factors.lu);
    MatrixBatch(pivots, batch, 1).store(i, factors.numbered);
    if (!has_elements) {
      continue;
    }
    right.load(i, given);
    if (left || is_vector) {
      ET_RETURN_IF_ERROR(factors.solve(given, false));
    } else {
      transpose_matrix(given, x);
      ET_RETURN_IF_ERROR(factors.solve(x, true));
      transpose_matrix(x, given);
    }
    to.store(i, given);
  }
  return Error::Ok;
}

Error linalg_inv_ex_inverse(KernelContext& context, const Tensor& a, bool check_errors, Tensor& inverse, Tensor& info) {
  constexpr const char* kOp = "aten::linalg_inv_ex";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "A", a, true));
  const IntArrayRef batch = batch_of(a);
  ET_RETURN_IF_ERROR(resize_tensor(context, inverse, a.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, info, batch));
  const int64_t n = a.size(-1);
  ET_TRY(Factors factors, Factors::make(context, inverse, n, n));
  ET_TRY(Matrix x, make_matrix(context, n, n));
  const MatrixBatch from(a, batch), to(inverse, batch);
  for (int64_t b = 0; b < from.count(); ++b) {
    from.load(b, factors.lu);
    ET_TRY(const int64_t failed, factors.factor());
    ET_RETURN_IF_ERROR(check_pivot(kOp, check_errors, b, failed));
    MatrixBatch(info, batch, 0).store_number(b, static_cast<double>(failed));
    set_identity(x);
    ET_RETURN_IF_ERROR(factors.solve(x, false));
    to.store(b, x);
  }
  return Error::Ok;
}

Error linalg_det_result(KernelContext& context, const Tensor& a, Tensor& result, Tensor& lu, Tensor& pivots) {
  ET_RETURN_IF_ERROR(check_matrices("aten::_linalg_det", "A", a, true));
  ET_RETURN_IF_ERROR(resize_tensor(context, result, batch_of(a)));
  return for_each_determinant(context, a, lu, pivots, [&](int64_t b, const Determinant& determinant) {
    MatrixBatch(result, batch_of(a), 0).store_number(b, determinant.value);
  });
}

Error linalg_slogdet_sign(KernelContext& context, const Tensor& a, Tensor& sign, Tensor& logabsdet, Tensor& lu,
                          Tensor& pivots) {
  ET_RETURN_IF_ERROR(check_matrices("aten::_linalg_slogdet", "A", a, true));
  ET_RETURN_IF_ERROR(resize_tensor(context, sign, batch_of(a)));
  ET_RETURN_IF_ERROR(resize_tensor(context, logabsdet, batch_of(a)));
  return for_each_determinant(context, a, lu, pivots, [&](int64_t b, const Determinant& determinant) {
    MatrixBatch(sign, batch_of(a), 0).store_number(b, determinant.sign);
    MatrixBatch(logabsdet, batch_of(a), 0).store_number(b, determinant.log);
  });
}

}  // namespace et::kernels::portable
