// Linear algebra: the portable kernels with blocked decompositions (dense.h) for matrices that are large.

#include <array>
#include <string_view>

#include "kernels/optimized/linalg/dense.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/large_matrices.h"
#include "kernels/portable/op_linalg_cholesky.h"
#include "kernels/portable/op_linalg_eigen.h"
#include "kernels/portable/op_linalg_ldl.h"
#include "kernels/portable/op_linalg_lu.h"
#include "kernels/portable/op_linalg_qr.h"
#include "kernels/portable/register.h"

namespace et::kernels::optimized::linalg {
namespace {

using portable::Matrix;
using portable::MatrixWork;

/// Matrices in double as those of a decomposition in T: themselves, or copies in its memory.
template <typename T>
Result<Dense<T>> dense_of(DenseWork<T>& work, const Matrix& a) {
  if constexpr (std::is_same_v<T, double>) {
    (void)work;
    return Dense<T>{a.data, a.rows, a.cols, a.cols};
  } else {
    ET_TRY(Dense<T> copy, work.matrix(a.rows, a.cols));
    const int64_t count = a.rows * a.cols;
    for (int64_t i = 0; i < count; ++i) {
      copy.data[i] = static_cast<T>(a.data[i]);
    }
    return copy;
  }
}
/// The same of a matrix that is written to only.
template <typename T>
Result<Dense<T>> room_for(DenseWork<T>& work, const Matrix& a) {
  if constexpr (std::is_same_v<T, double>) {
    return dense_of(work, a);
  } else {
    return work.matrix(a.rows, a.cols);
  }
}
template <typename T>
void write_back(const Dense<T>& from, const Matrix& a) {
  if constexpr (!std::is_same_v<T, double>) {
    const int64_t count = a.rows * a.cols;
    for (int64_t i = 0; i < count; ++i) {
      a.data[i] = static_cast<double>(from.data[i]);
    }
  }
}

/// Calls f(DenseWork<T>&) with memory for `numbers` numbers beside copies of matrices of `elements` elements in all.
template <typename F>
Error with_work(MatrixWork& work, int64_t largest, int64_t elements, int64_t numbers, F f) {
  const auto run = [&](auto zero, int64_t copied) {
    using T = decltype(zero);
    const size_t nbytes = DenseWork<T>::bytes_for(largest, copied + numbers);
    ET_TRY(uint8_t* const memory, work.reserve(nbytes));
    DenseWork<T> dense(work.context(), memory, nbytes, largest);
    return f(dense);
  };
  return work.in_float() ? run(float{}, elements) : run(double{}, 0);
}

int64_t size_of(const Matrix& a) { return a.rows * a.cols; }
int64_t largest_of(const Matrix& a) { return std::max(a.rows, a.cols); }

Result<int64_t> lu_factor(MatrixWork& work, const Matrix& a, int64_t* pivots) {
  int64_t info = 0;
  ET_RETURN_IF_ERROR(with_work(work, largest_of(a), size_of(a), lu_numbers(a.rows), [&](auto& dense) {
    ET_TRY(const auto factors, dense_of(dense, a));
    ET_RETURN_IF_ERROR(factor_lu(dense, factors, pivots, &info));
    write_back(factors, a);
    return Error::Ok;
  }));
  return info;
}

Error triangular_solve(MatrixWork& work, const Matrix& a, const Matrix& b, bool upper, bool transposed, bool unit) {
  return with_work(work, std::max(a.rows, b.cols), size_of(a) + size_of(b), 0, [&](auto& dense) {
    ET_TRY(const auto factor, dense_of(dense, a));
    ET_TRY(const auto x, dense_of(dense, b));
    const Triangle<std::remove_reference_t<decltype(*factor.data)>> triangle{
        factor.data, a.rows, transposed ? 1 : factor.stride, transposed ? factor.stride : 1, upper == transposed, unit};
    ET_RETURN_IF_ERROR(solve_triangle(dense, triangle, x));
    write_back(x, b);
    return Error::Ok;
  });
}

Result<int64_t> cholesky_factor(MatrixWork& work, const Matrix& a) {
  int64_t info = 0;
  ET_RETURN_IF_ERROR(with_work(work, a.rows, size_of(a), 0, [&](auto& dense) {
    ET_TRY(const auto factor, dense_of(dense, a));
    ET_RETURN_IF_ERROR(factor_cholesky(dense, factor, &info));
    write_back(factor, a);
    return Error::Ok;
  }));
  return info;
}

Result<int64_t> ldl_factor(MatrixWork& work, const Matrix& a, double* pivots) {
  int64_t info = 0;
  ET_RETURN_IF_ERROR(with_work(work, a.rows, size_of(a), ldl_numbers(a.rows), [&](auto& dense) {
    ET_TRY(const auto factors, dense_of(dense, a));
    ET_RETURN_IF_ERROR(factor_ldl(dense, factors, pivots, &info));
    write_back(factors, a);
    return Error::Ok;
  }));
  return info;
}

/// Numbers in T where the caller has doubles.
template <typename T>
Result<T*> numbers_of(DenseWork<T>& work, const double* values, int64_t n) {
  ET_TRY(T * numbers, work.vector(n));
  for (int64_t i = 0; i < n; ++i) {
    numbers[i] = static_cast<T>(values[i]);
  }
  return numbers;
}

Error qr_factor(MatrixWork& work, const Matrix& a, double* tau) {
  const int64_t k = std::min(a.rows, a.cols);
  return with_work(work, largest_of(a), size_of(a), qr_numbers(a.rows, a.cols) + k, [&](auto& dense) {
    ET_TRY(const auto factor, dense_of(dense, a));
    ET_TRY(auto* const scales, numbers_of(dense, tau, k));
    ET_RETURN_IF_ERROR(factor_qr(dense, factor, scales));
    std::copy_n(scales, k, tau);
    write_back(factor, a);
    return Error::Ok;
  });
}

Error apply_reflectors(MatrixWork& work, const Matrix& a, const double* tau, int64_t k, const Matrix& c,
                       bool transposed, bool onto_identity) {
  const int64_t numbers = qr_numbers(c.rows, c.cols) + k;
  return with_work(work, std::max(a.rows, c.cols), size_of(a) + size_of(c), numbers, [&](auto& dense) {
    ET_TRY(const auto vectors, dense_of(dense, a));
    ET_TRY(const auto product, dense_of(dense, c));
    ET_TRY(auto* const scales, numbers_of(dense, tau, k));
    ET_RETURN_IF_ERROR(apply_reflectors(dense, {vectors}, 0, scales, k, product, transposed, onto_identity));
    write_back(product, c);
    return Error::Ok;
  });
}

Error multiply(MatrixWork& work, const Matrix& a, const Matrix& b, const Matrix& c) {
  const int64_t elements = size_of(a) + size_of(b) + size_of(c);
  return with_work(work, std::max({a.rows, a.cols, b.cols}), elements, 0, [&](auto& dense) {
    ET_TRY(const auto left, dense_of(dense, a));
    ET_TRY(const auto right, dense_of(dense, b));
    ET_TRY(const auto product, room_for(dense, c));
    ET_RETURN_IF_ERROR(dense.multiply(left, right, product));
    write_back(product, c);
    return Error::Ok;
  });
}

Error symmetric_eigen(MatrixWork& work, const Matrix& a, double* d, double* e, double* c, double* s,
                      const Matrix& rows) {
  return with_work(work, a.rows, size_of(a) + size_of(rows), eigen_numbers(a.rows), [&](auto& dense) {
    ET_TRY(const auto given, dense_of(dense, a));
    ET_TRY(const auto vectors, room_for(dense, rows));
    ET_RETURN_IF_ERROR(eigen_of_symmetric(dense, given, d, e, c, s, rows.data == nullptr ? nullptr : &vectors));
    write_back(vectors, rows);
    return Error::Ok;
  });
}

Result<bool> singular_values(MatrixWork& work, const Matrix& a, double* d, double* e, double* angles, const Matrix& ut,
                             const Matrix& vt) {
  const bool wanted = ut.data != nullptr;
  const int64_t largest = std::max(a.rows, ut.rows), elements = size_of(a) + size_of(ut) + size_of(vt);
  bool is_done = false;
  ET_RETURN_IF_ERROR(with_work(work, largest, elements, singular_numbers(a.rows, a.cols, ut.rows), [&](auto& dense) {
    ET_TRY(const auto given, dense_of(dense, a));
    ET_TRY(const auto left, room_for(dense, ut));
    ET_TRY(const auto right, room_for(dense, vt));
    ET_TRY(is_done,
           singular_values_of(dense, given, d, e, angles, wanted ? &left : nullptr, wanted ? &right : nullptr));
    write_back(left, ut);
    write_back(right, vt);
    return Error::Ok;
  }));
  return is_done;
}

Error general_eigen(MatrixWork& work, const Matrix& a, double* re, double* im, const Matrix& vt) {
  return with_work(work, a.rows, size_of(a) + size_of(vt), schur_numbers(a.rows), [&](auto& dense) {
    ET_TRY(const auto given, dense_of(dense, a));
    ET_TRY(const auto vectors, room_for(dense, vt));
    ET_RETURN_IF_ERROR(eigen_of_general(dense, given, re, im, vt.data == nullptr ? nullptr : &vectors));
    write_back(vectors, vt);
    return Error::Ok;
  });
}

constexpr portable::LargeMatrices kLargeMatrices = {
    &lu_factor,        &triangular_solve, &cholesky_factor, &ldl_factor,    &qr_factor,
    &apply_reflectors, &symmetric_eigen,  &singular_values, &general_eigen, &multiply,
};

struct Row {
  const char* name;
  const char* signature;
};
/// Names only the type of the portable kernel, which a build with selected kernels may lack.
template <auto Function>
constexpr Row row_of(const char* name) {
  return {name, runtime::detail::Boxed<Function>::signature};
}
constexpr Row kRows[] = {
    row_of<&portable::cholesky_out>("aten::cholesky.out"),
    row_of<&portable::cholesky_inverse_out>("aten::cholesky_inverse.out"),
    row_of<&portable::cholesky_solve_out>("aten::cholesky_solve.out"),
    row_of<&portable::geqrf_a>("aten::geqrf.a"),
    row_of<&portable::linalg_cholesky_ex_l>("aten::linalg_cholesky_ex.L"),
    row_of<&portable::linalg_det_result>("aten::_linalg_det.result"),
    row_of<&portable::linalg_eig_out>("aten::linalg_eig.out"),
    row_of<&portable::linalg_eigh_eigenvalues>("aten::_linalg_eigh.eigenvalues"),
    row_of<&portable::linalg_eigvals_out>("aten::linalg_eigvals.out"),
    row_of<&portable::linalg_householder_product_out>("aten::linalg_householder_product.out"),
    row_of<&portable::linalg_inv_ex_inverse>("aten::linalg_inv_ex.inverse"),
    row_of<&portable::linalg_ldl_factor_ex_out>("aten::linalg_ldl_factor_ex.out"),
    row_of<&portable::linalg_ldl_solve_out>("aten::linalg_ldl_solve.out"),
    row_of<&portable::linalg_lstsq_out>("aten::linalg_lstsq.out"),
    row_of<&portable::linalg_lu_out>("aten::linalg_lu.out"),
    row_of<&portable::linalg_lu_factor_ex_out>("aten::linalg_lu_factor_ex.out"),
    row_of<&portable::linalg_lu_solve_out>("aten::linalg_lu_solve.out"),
    row_of<&portable::linalg_matrix_exp_out>("aten::linalg_matrix_exp.out"),
    row_of<&portable::linalg_pinv_atol_rtol_tensor_out>("aten::linalg_pinv.atol_rtol_tensor_out"),
    row_of<&portable::linalg_qr_out>("aten::linalg_qr.out"),
    row_of<&portable::linalg_slogdet_sign>("aten::_linalg_slogdet.sign"),
    row_of<&portable::linalg_solve_ex_result>("aten::_linalg_solve_ex.result"),
    row_of<&portable::linalg_solve_triangular_out>("aten::linalg_solve_triangular.out"),
    row_of<&portable::linalg_svd_u>("aten::_linalg_svd.U"),
    row_of<&portable::ormqr_out>("aten::ormqr.out"),
    row_of<&portable::triangular_solve_x>("aten::triangular_solve.X"),
};

template <size_t row>
Error prepare(runtime::PrepareContext&, Span<EValue* const>, void** state) {
  for (const Kernel& kernel : portable::portable_kernels()) {
    if (std::string_view(kernel.name) == kRows[row].name) {
      *state = const_cast<Kernel*>(&kernel);
      return Error::Ok;
    }
  }
  return Error::NotSupported;
}

/// Runs the portable kernel that `state` is.
Error run(KernelContext& context, Span<EValue* const> args, void* state) {
  const portable::LentMethods lent(kLargeMatrices);
  return static_cast<const Kernel*>(state)->run(context, args, nullptr);
}

template <size_t... rows>
constexpr std::array<Kernel, sizeof...(rows)> make_kernels(std::index_sequence<rows...>) {
  return {{{kRows[rows].name, kRows[rows].signature, &run, &prepare<rows>, nullptr, runtime::kPriorityOptimized}...}};
}
constexpr auto kKernels = make_kernels(std::make_index_sequence<std::size(kRows)>());

}  // namespace

ET_KERNEL_TABLE(large_matrices, {kKernels.data(), kKernels.size()})

}  // namespace et::kernels::optimized::linalg
