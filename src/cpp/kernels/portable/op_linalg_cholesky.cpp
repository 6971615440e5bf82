// Cholesky factors of symmetric matrices, and triangular systems.
#include "kernels/portable/op_linalg_cholesky.h"

#include <algorithm>
#include <cmath>

#include "kernels/portable/matrix.h"

namespace et::kernels::portable {
namespace {

// Zeros below the diagonal of the first `count` columns.
void clear_below(const Matrix& a, int64_t count) {
  for (int64_t i = 1; i < a.rows; ++i) {
    std::fill(a[i], a[i] + std::min(i, count), 0.0);
  }
}

void transpose_in_place(const Matrix& a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      std::swap(a(i, j), a(j, i));
    }
  }
}

Error factor_all(KernelContext& context, const char* op, const Tensor& self, bool upper, bool must_succeed, Tensor& out,
                 const Tensor* info) {
  ET_RETURN_IF_ERROR(check_matrices(op, "self", self, true));
  const IntArrayRef batch = batch_of(self);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (info != nullptr) {
    ET_RETURN_IF_ERROR(resize_tensor(context, *info, batch));
  }
  ET_TRY(Matrix a, make_matrix(context, self.size(-1), self.size(-1)));
  MatrixWork work(context, out);
  const MatrixBatch from(self, batch), to(out, batch);
  for (int64_t b = 0; b < from.count({&out, info}); ++b) {
    from.load(b, a);
    if (!upper) {
      transpose_in_place(a);
    }
    ET_TRY(const int64_t failed, cholesky_factor(work, a));
    ET_CHECK_OR_RETURN(failed == 0 || !must_succeed, InvalidArgument,
                       "%s: matrix %" PRId64 " is not positive definite: its leading minor of order %" PRId64 " is not",
                       op, b, failed);
    clear_below(a, failed == 0 ? a.rows : failed - 1);
    if (!upper) {
      transpose_in_place(a);
    }
    to.store(b, a);
    if (info != nullptr) {
      MatrixBatch(*info, batch, 0).store_number(b, static_cast<double>(failed));
    }
  }
  return Error::Ok;
}

// Solves the systems of a batch: `solve(factor, x)` replaces the right sides x by the answer, with memory. The factor
// stands left of the unknowns, or right of them.
template <typename Solve>
Error solve_each(KernelContext& context, const char* op, const char* const (&names)[2], const Tensor& a,
                 const Tensor& b, bool left, Tensor& out, Solve solve) {
  ET_RETURN_IF_ERROR(check_matrices(op, names[0], a, true));
  ET_RETURN_IF_ERROR(check_matrices(op, names[1], b, false));
  ET_CHECK_OR_RETURN(b.size(left ? -2 : -1) == a.size(-1), InvalidArgument,
                     "%s: matrices of shape %s and %s do not fit together", op, ShapeText(a.sizes()).text,
                     ShapeText(b.sizes()).text);
  Sizes batch;
  ET_RETURN_IF_ERROR(broadcast_sizes(op, batch_of(a), batch_of(b), &batch));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, joined(batch, {b.size(-2), b.size(-1)})));
  ET_TRY(Matrix factor, make_matrix(context, a.size(-1), a.size(-1)));
  ET_TRY(Matrix x, make_matrix(context, b.size(-2), b.size(-1)));
  MatrixWork work(context, out);
  const MatrixBatch from(a, batch), right(b, batch), to(out, batch);
  for (int64_t i = 0; i < to.count({&out}); ++i) {
    from.load(i, factor);
    right.load(i, x);
    ET_RETURN_IF_ERROR(solve(work, factor, x));
    to.store(i, x);
  }
  return Error::Ok;
}

// A system with a triangular matrix, for all matrices of a batch.
struct Triangular {
  bool upper, left, transposed, unit;
};

Error solve_all(KernelContext& context, const char* op, const Tensor& a, const Tensor& b, Triangular how, Tensor& out) {
  ET_RETURN_IF_ERROR(check_matrices(op, "B", b, false));
  ET_TRY(Matrix turned, make_matrix(context, b.size(-1), b.size(-2)));
  const auto solve = [&](MatrixWork& work, const Matrix& factor, const Matrix& x) {
    if (how.left) {
      return triangular_solve(work, factor, x, how.upper, how.transposed, how.unit);
    }
    transpose_matrix(x, turned);  // X A = B is Aᵀ Xᵀ = Bᵀ
    ET_RETURN_IF_ERROR(triangular_solve(work, factor, turned, how.upper, !how.transposed, how.unit));
    transpose_matrix(turned, x);
    return Error::Ok;
  };
  return solve_each(context, op, {"A", "B"}, a, b, how.left, out, solve);
}

// (L Lᵀ)⁻¹ b in place, or with (Uᵀ U).
Error solve_with_factor(MatrixWork& work, const Matrix& factor, const Matrix& b, bool upper) {
  ET_RETURN_IF_ERROR(triangular_solve(work, factor, b, upper, upper, false));
  return triangular_solve(work, factor, b, upper, !upper, false);
}

}  // namespace

Error linalg_cholesky_ex_l(KernelContext& context, const Tensor& self, bool upper, bool check_errors, Tensor& l,
                           Tensor& info) {
  return factor_all(context, "aten::linalg_cholesky_ex", self, upper, check_errors, l, &info);
}

Error cholesky_out(KernelContext& context, const Tensor& self, bool upper, Tensor& out) {
  return factor_all(context, "aten::cholesky", self, upper, true, out, nullptr);
}

Error cholesky_solve_out(KernelContext& context, const Tensor& self, const Tensor& input2, bool upper, Tensor& out) {
  return solve_each(context, "aten::cholesky_solve", {"input2", "self"}, input2, self, true, out,
                    [&](MatrixWork& work, const Matrix& factor, const Matrix& x) {
                      return solve_with_factor(work, factor, x, upper);
                    });
}

Error cholesky_inverse_out(KernelContext& context, const Tensor& self, bool upper, Tensor& out) {
  ET_RETURN_IF_ERROR(check_matrices("aten::cholesky_inverse", "self", self, true));
  const IntArrayRef batch = batch_of(self);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  ET_TRY(Matrix factor, make_matrix(context, self.size(-1), self.size(-1)));
  ET_TRY(Matrix x, make_matrix(context, self.size(-1), self.size(-1)));
  MatrixWork work(context, out);
  const MatrixBatch from(self, batch), to(out, batch);
  for (int64_t i = 0; i < to.count({&out}); ++i) {
    from.load(i, factor);
    set_identity(x);
    ET_RETURN_IF_ERROR(solve_with_factor(work, factor, x, upper));
    to.store(i, x);
  }
  return Error::Ok;
}

Error linalg_solve_triangular_out(KernelContext& context, const Tensor& self, const Tensor& b, bool upper, bool left,
                                  bool unitriangular, Tensor& out) {
  return solve_all(context, "aten::linalg_solve_triangular", self, b, {upper, left, false, unitriangular}, out);
}

Error triangular_solve_x(KernelContext& context, const Tensor& self, const Tensor& a, bool upper, bool transpose,
                         bool unitriangular, Tensor& x, Tensor& m) {
  constexpr const char* kOp = "aten::triangular_solve";
  ET_RETURN_IF_ERROR(solve_all(context, kOp, a, self, {upper, true, transpose, unitriangular}, x));
  Sizes batch;
  ET_RETURN_IF_ERROR(broadcast_sizes(kOp, batch_of(a), batch_of(self), &batch));
  Sizes sizes(batch);
  sizes.push_back(a.size(-2));
  sizes.push_back(a.size(-1));
  ET_RETURN_IF_ERROR(resize_tensor(context, m, sizes));
  ET_TRY(Matrix copy, make_matrix(context, a.size(-2), a.size(-1)));
  const MatrixBatch from(a, batch), to(m, batch);
  for (int64_t i = 0; i < to.count({&m}); ++i) {
    from.load(i, copy);
    to.store(i, copy);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
