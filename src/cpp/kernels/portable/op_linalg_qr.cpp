// Orthogonal factors: QR, products of Householder reflectors, singular values, least squares.
#include "kernels/portable/op_linalg_qr.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/portable/matrix.h"

namespace et::kernels::portable {
namespace {

double epsilon_of(ScalarType dtype) {
  return dtype == ScalarType::Double ? std::numeric_limits<double>::epsilon()
                                     : static_cast<double>(std::numeric_limits<float>::epsilon());
}

}  // namespace

Error geqrf_a(KernelContext& context, const Tensor& self, Tensor& a, Tensor& tau) {
  ET_RETURN_IF_ERROR(check_matrices("aten::geqrf", "self", self, false));
  const IntArrayRef batch = batch_of(self);
  const int64_t k = std::min(self.size(-1), self.size(-2));
  ET_RETURN_IF_ERROR(resize_tensor(context, a, self.sizes()));
  ET_RETURN_IF_ERROR(resize_tensor(context, tau, joined(batch, {k})));
  ET_TRY(Matrix factor, make_matrix(context, self.size(-2), self.size(-1)));
  ET_TRY(double* scales, make_vector(context, k));
  MatrixWork work(context, a);
  const MatrixBatch from(self, batch);
  for (int64_t b = 0; b < from.count({&a, &tau}); ++b) {
    from.load(b, factor);
    ET_RETURN_IF_ERROR(qr_factor(work, factor, scales));
    MatrixBatch(a, batch).store(b, factor);
    MatrixBatch(tau, batch, 1).store(b, scales);
  }
  return Error::Ok;
}

Error linalg_qr_out(KernelContext& context, const Tensor& a, std::string_view mode, Tensor& q, Tensor& r) {
  constexpr const char* kOp = "aten::linalg_qr";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "A", a, false));
  ET_CHECK_OR_RETURN(mode == "reduced" || mode == "complete" || mode == "r", InvalidArgument,
                     "%s: mode is '%.*s', must be reduced, complete or r", kOp, static_cast<int>(mode.size()),
                     mode.data());
  const IntArrayRef batch = batch_of(a);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const int64_t width = mode == "complete" ? m : k;
  ET_RETURN_IF_ERROR(resize_tensor(context, r, joined(batch, {width, n})));
  if (mode == "r") {
    const int64_t empty[] = {0};
    ET_RETURN_IF_ERROR(resize_tensor(context, q, empty));
  } else {
    ET_RETURN_IF_ERROR(resize_tensor(context, q, joined(batch, {m, width})));
  }
  ET_TRY(Matrix factor, make_matrix(context, m, n));
  ET_TRY(Matrix left, make_matrix(context, m, width));
  ET_TRY(Matrix right, make_matrix(context, width, n));
  ET_TRY(double* tau, make_vector(context, k));
  MatrixWork work(context, r);
  const MatrixBatch from(a, batch);
  for (int64_t b = 0; b < from.count({&q, &r}); ++b) {
    from.load(b, factor);
    ET_RETURN_IF_ERROR(qr_factor(work, factor, tau));
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        right(i, j) = j >= i ? factor(i, j) : 0.0;
      }
    }
    MatrixBatch(r, batch).store(b, right);
    if (mode != "r") {
      set_identity(left);
      ET_RETURN_IF_ERROR(apply_reflectors(work, factor, tau, k, left, false, true));
      MatrixBatch(q, batch).store(b, left);
    }
  }
  return Error::Ok;
}

Error linalg_householder_product_out(KernelContext& context, const Tensor& input, const Tensor& tau, Tensor& out) {
  constexpr const char* kOp = "aten::linalg_householder_product";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "input", input, false));
  const int64_t m = input.size(-2), n = input.size(-1);
  ET_CHECK_OR_RETURN(m >= n && tau.dim() == input.dim() - 1 && tau.size(-1) <= n, InvalidArgument,
                     "%s: input %s and tau %s do not fit together", kOp, ShapeText(input.sizes()).text,
                     ShapeText(tau.sizes()).text);
  const IntArrayRef batch = batch_of(input);
  ET_RETURN_IF_ERROR(check_batch(kOp, "tau", tau, 1, batch));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input.sizes()));
  ET_TRY(Matrix reflectors, make_matrix(context, m, n));
  ET_TRY(Matrix q, make_matrix(context, m, n));
  ET_TRY(double* scales, make_vector(context, tau.size(-1)));
  MatrixWork work(context, out);
  const MatrixBatch from(input, batch), by(tau, batch, 1), to(out, batch);
  for (int64_t b = 0; b < from.count({&out}); ++b) {
    from.load(b, reflectors);
    by.load(b, scales);
    set_identity(q);
    ET_RETURN_IF_ERROR(apply_reflectors(work, reflectors, scales, tau.size(-1), q, false, true));
    to.store(b, q);
  }
  return Error::Ok;
}

Error ormqr_out(KernelContext& context, const Tensor& self, const Tensor& input2, const Tensor& input3, bool left,
                bool transpose, Tensor& out) {
  constexpr const char* kOp = "aten::ormqr";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "self", self, false));
  ET_RETURN_IF_ERROR(check_matrices(kOp, "input3", input3, false));
  const int64_t k = input2.dim() == 0 ? 0 : input2.size(-1);
  const int64_t order = input3.size(left ? -2 : -1);
  ET_CHECK_OR_RETURN(self.size(-2) == order && k <= self.size(-1) && k <= order && input2.dim() == self.dim() - 1,
                     InvalidArgument, "%s: self %s, tau %s and other %s do not fit together", kOp,
                     ShapeText(self.sizes()).text, ShapeText(input2.sizes()).text, ShapeText(input3.sizes()).text);
  const IntArrayRef batch = batch_of(input3);
  ET_RETURN_IF_ERROR(check_batch(kOp, "self", self, 2, batch));
  ET_RETURN_IF_ERROR(check_batch(kOp, "tau", input2, 1, batch));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, input3.sizes()));
  ET_TRY(Matrix reflectors, make_matrix(context, self.size(-2), self.size(-1)));
  ET_TRY(Matrix c, make_matrix(context, input3.size(-2), input3.size(-1)));
  ET_TRY(Matrix turned, make_matrix(context, input3.size(-1), input3.size(-2)));
  ET_TRY(double* tau, make_vector(context, k));
  MatrixWork work(context, out);
  const MatrixBatch from(self, batch), by(input2, batch, 1), other(input3, batch), to(out, batch);
  for (int64_t b = 0; b < to.count({&out}); ++b) {
    from.load(b, reflectors);
    by.load(b, tau);
    other.load(b, c);
    if (left) {
      ET_RETURN_IF_ERROR(apply_reflectors(work, reflectors, tau, k, c, transpose));
    } else {  // C Q is (Qᵀ Cᵀ)ᵀ
      transpose_matrix(c, turned);
      ET_RETURN_IF_ERROR(apply_reflectors(work, reflectors, tau, k, turned, !transpose));
      transpose_matrix(turned, c);
    }
    to.store(b, c);
  }
  return Error::Ok;
}

Error linalg_svd_u(KernelContext& context, const Tensor& a, bool full_matrices, bool compute_uv,
                   std::optional<std::string_view>, Tensor& u, Tensor& s, Tensor& vh) {
  constexpr const char* kOp = "aten::_linalg_svd";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "A", a, false));
  const IntArrayRef batch = batch_of(a);
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const int64_t left_width = full_matrices ? m : k, right_height = full_matrices ? n : k;
  ET_RETURN_IF_ERROR(resize_tensor(context, s, joined(batch, {k})));
  if (compute_uv) {
    ET_RETURN_IF_ERROR(resize_tensor(context, u, joined(batch, {m, left_width})));
    ET_RETURN_IF_ERROR(resize_tensor(context, vh, joined(batch, {right_height, n})));
  } else {
    const int64_t empty[] = {0};
    ET_RETURN_IF_ERROR(resize_tensor(context, u, empty));
    ET_RETURN_IF_ERROR(resize_tensor(context, vh, empty));
  }
  ET_TRY(Matrix given, make_matrix(context, m, n));
  Matrix left, right;
  if (compute_uv) {
    ET_TRY(left, make_matrix(context, m, left_width));
    ET_TRY(right, make_matrix(context, right_height, n));
  }
  ET_TRY(double* values, make_vector(context, k));
  MatrixWork work(context, s);
  const MatrixBatch from(a, batch);
  for (int64_t b = 0; b < from.count({&u, &s, &vh}); ++b) {
    from.load(b, given);
    ET_RETURN_IF_ERROR(singular_values(work, given, values, left, right));
    MatrixBatch(s, batch, 1).store(b, values);
    if (compute_uv) {
      MatrixBatch(u, batch).store(b, left);
      MatrixBatch(vh, batch).store(b, right);
    }
  }
  return Error::Ok;
}

Error linalg_pinv_atol_rtol_tensor_out(KernelContext& context, const Tensor& self, const OptionalTensor& atol,
                                       const OptionalTensor& rtol, bool hermitian, Tensor& out) {
  constexpr const char* kOp = "aten::linalg_pinv";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "self", self, false));
  const IntArrayRef batch = batch_of(self);
  const int64_t m = self.size(-2), n = self.size(-1), k = std::min(m, n);
  ET_CHECK_OR_RETURN(!hermitian || m == n, InvalidArgument, "%s: the matrices of self are not square: %s", kOp,
                     ShapeText(self.sizes()).text);
  for (const OptionalTensor* tolerance : {&atol, &rtol}) {
    if (tolerance->has_value()) {
      ET_RETURN_IF_ERROR(check_batch(kOp, "a tolerance", **tolerance, 0, batch));
    }
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, joined(batch, {n, m})));
  ET_TRY(Matrix a, make_matrix(context, m, n));
  ET_TRY(Matrix u, make_matrix(context, m, k));
  ET_TRY(Matrix vt, make_matrix(context, k, n));
  ET_TRY(Matrix v, make_matrix(context, n, k));
  ET_TRY(Matrix ut, make_matrix(context, k, m));
  ET_TRY(Matrix inverse, make_matrix(context, n, m));
  ET_TRY(double* s, make_vector(context, k));
  MatrixWork work(context, out);
  const MatrixBatch from(self, batch), to(out, batch);
  for (int64_t b = 0; b < to.count({&out}); ++b) {
    double absolute = 0.0;
    double relative = 0.0;
    if (atol.has_value()) {
      MatrixBatch(*atol, batch, 0).load(b, &absolute);
    }
    if (rtol.has_value()) {
      MatrixBatch(*rtol, batch, 0).load(b, &relative);
    } else if (absolute <= 0.0) {
      relative = epsilon_of(self.scalar_type()) * static_cast<double>(std::max(m, n));
    }
    from.load(b, a);
    if (hermitian) {  // A = V L Vᵀ of the lower triangle
      mirror(a, false);
      ET_RETURN_IF_ERROR(symmetric_eigen(work, a, s, v, ut));
    } else {
      ET_RETURN_IF_ERROR(singular_values(work, a, s, u, vt));
      transpose_matrix(vt, v);
      transpose_matrix(u, ut);
    }
    double largest = 0.0;
    for (int64_t r = 0; r < k; ++r) {
      largest = std::max(largest, std::fabs(s[r]));
    }
    for (int64_t r = 0; r < k; ++r) {
      const bool counts = !(std::fabs(s[r]) <= std::max(absolute, relative * largest));  // NaN, too
      std::for_each(ut[r], ut[r] + m, [=](double& x) { x = counts ? x / s[r] : 0.0; });
    }
    ET_RETURN_IF_ERROR(multiply(work, v, ut, inverse));
    to.store(b, inverse);
  }
  return Error::Ok;
}

Error linalg_lstsq_out(KernelContext& context, const Tensor& self, const Tensor& b, std::optional<double> rcond,
                       std::optional<std::string_view> driver, Tensor& solution, Tensor& residuals, Tensor& rank,
                       Tensor& singular_values_out) {
  constexpr const char* kOp = "aten::linalg_lstsq";
  ET_RETURN_IF_ERROR(check_matrices(kOp, "self", self, false));
  const std::string_view method = driver.value_or("gelsy");
  const bool is_vector = b.dim() == self.dim() - 1;
  const int64_t width = is_vector ? 1 : 2;
  const int64_t m = self.size(-2), n = self.size(-1), k = std::min(m, n);
  ET_CHECK_OR_RETURN(b.dim() >= width && b.size(-width) == m, InvalidArgument,
                     "%s: self %s and b %s do not fit together", kOp, ShapeText(self.sizes()).text,
                     ShapeText(b.sizes()).text);
  Sizes batch;
  ET_RETURN_IF_ERROR(broadcast_sizes(kOp, batch_of(self), batch_of(b, width), &batch));
  const int64_t columns = is_vector ? 1 : b.size(-1);
  const bool has_rank = method != "gels", has_values = method == "gelsd" || method == "gelss";
  ET_RETURN_IF_ERROR(resize_tensor(context, solution, is_vector ? joined(batch, {n}) : joined(batch, {n, columns})));
  const int64_t empty[] = {0};
  ET_RETURN_IF_ERROR(resize_tensor(context, rank, has_rank ? IntArrayRef(batch_of(self)) : IntArrayRef(empty)));
  ET_RETURN_IF_ERROR(
      resize_tensor(context, singular_values_out, has_values ? joined(batch_of(self), {k}) : Sizes(empty)));

  ET_TRY(Matrix a, make_matrix(context, m, n));
  ET_TRY(Matrix u, make_matrix(context, m, k));
  ET_TRY(Matrix vt, make_matrix(context, k, n));
  ET_TRY(double* s, make_vector(context, k));
  ET_TRY(Matrix right, make_matrix(context, m, columns));
  ET_TRY(Matrix x, make_matrix(context, n, columns));
  MatrixWork work(context, solution);
  const bool has_elements = solution.numel() > 0;
  // Right sides of nothing may be more than there is time for.
  const Sizes walked = has_elements ? batch : Sizes(batch_of(self));
  const MatrixBatch from(self, walked), given(b, walked, width), to(solution, walked, width);
  const double cut = rcond.value_or(epsilon_of(self.scalar_type()) * static_cast<double>(std::max(m, n)));
  bool full_rank = true;
  for (int64_t i = 0; i < from.count({&solution, &rank, &singular_values_out}); ++i) {
    from.load(i, a);
    if (has_elements) {
      given.load(i, right);
    }
    ET_RETURN_IF_ERROR(singular_values(work, a, s, u, vt));
    std::fill(x.data, x.data + n * columns, 0.0);
    int64_t found = 0;
    for (; found < k && s[found] > cut * s[0]; ++found) {
      for (int64_t c = 0; has_elements && c < columns; ++c) {
        double dot = 0.0;
        for (int64_t row = 0; row < m; ++row) {
          dot += u(row, found) * right(row, c);
        }
        for (int64_t row = 0; row < n; ++row) {
          x(row, c) += dot / s[found] * vt(found, row);
        }
      }
    }
    full_rank = full_rank && found == n;
    if (has_elements) {
      to.store(i, x);
    }
    if (has_rank) {
      MatrixBatch(rank, walked, 0).store_number(i, static_cast<double>(found));
    }
    if (has_values) {
      MatrixBatch(singular_values_out, walked, 1).store(i, s);
    }
  }
  // The squared distances, of overdetermined systems of full rank.
  if (m <= n || !full_rank || method == "gelsy") {
    return resize_tensor(context, residuals, empty);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, residuals, joined(batch, {columns})));
  ET_TRY(double* squares, make_vector(context, columns));
  const MatrixBatch matrices(self, batch), goals(b, batch, width), found(solution, batch, width);
  for (int64_t i = 0; i < matrices.count({&residuals}); ++i) {
    matrices.load(i, a);
    goals.load(i, right);
    found.load(i, x);
    for (int64_t c = 0; c < columns; ++c) {
      squares[c] = 0.0;
      for (int64_t row = 0; row < m; ++row) {
        double rest = right(row, c);
        for (int64_t j = 0; j < n; ++j) {
          rest -= a(row, j) * x(j, c);
        }
        squares[c] += rest * rest;
      }
    }
    MatrixBatch(residuals, batch, 1).store(i, squares);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
