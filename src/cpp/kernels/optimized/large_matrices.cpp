#include "kernels/optimized/large_matrices.h"

#include "kernels/optimized/dense.h"
#include "kernels/portable/large_matrices.h"

namespace et::kernels::optimized {
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
    &apply_reflectors, &symmetric_eigen,  &singular_values, &general_eigen, &multiply};

}  // namespace

void use_large_matrices() { portable::use_large_matrices(kLargeMatrices); }

}  // namespace et::kernels::optimized
