// Triangular systems, LU and Cholesky factors by halves, whose work is in the products between the halves.
// Sources: G. Golub, C. Van Loan, "Matrix Computations", 3.1, 3.4, 4.2 (block forms); S. Toledo, "Locality of reference
// in LU decomposition with partial pivoting", 1997 (columns by halves).

#include "kernels/optimized/linalg/dense.h"

namespace et::kernels::optimized::linalg {
namespace {

constexpr int64_t kLeaf = 32;  // rows that are treated one by one

/// Half of n, a multiple of kLeaf.
int64_t half_of(int64_t n) { return (n / 2 + kLeaf - 1) / kLeaf * kLeaf; }

template <typename T>
struct NegatedOperand {
  matmul::GemmStripsOf<T> strips;
  static void pack(const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width, T* out) {
    const auto& self = *static_cast<const NegatedOperand*>(state);
    self.strips.pack(self.strips.state, k, depth, first, count, width, out);
    for (size_t i = 0; i < depth * width; ++i) {
      out[i] = -out[i];
    }
  }
};

/// Rows of b one by one; columns of b by as many as stay in the first cache.
template <typename T>
void solve_leaf(const MatrixLines<T>& lines, const Triangle<T>& a, const Dense<T>& b) {
  constexpr int64_t kColumns = 1024 / sizeof(T);
  const int64_t n = a.n;
  T factors[kLeaf];
  for (int64_t begin = 0; begin < b.cols; begin += kColumns) {
    const int64_t width = std::min(kColumns, b.cols - begin);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = a.lower ? step : n - 1 - step;
      const int64_t from = a.lower ? 0 : i + 1, count = a.lower ? i : n - 1 - i;
      for (int64_t k = 0; k < count; ++k) {
        factors[k] = -a.data[i * a.row_stride + (from + k) * a.col_stride];
      }
      T* const row = b[i] + begin;
      if (count > 0) {
        lines.add(row, b[from] + begin, b.stride, factors, count, width);
      }
      if (!a.unit) {
        const T diagonal = a.data[i * (a.row_stride + a.col_stride)];
        for (int64_t j = 0; j < width; ++j) {
          row[j] /= diagonal;
        }
      }
    }
  }
}

/// A few columns as rows of `panel`, one after the other; each takes off what those before it give.
template <typename T>
int64_t factor_panel(const MatrixLines<T>& lines, const Dense<T>& a, const Dense<T>& panel, int64_t* pivots) {
  const int64_t m = a.rows, n = a.cols;
  int64_t info = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      panel(j, i) = a(i, j);
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    T* const column = panel[j];
    T factors[kLeaf];
    for (int64_t k = 0; k < std::min(j, m); ++k) {
      if (pivots[k] != k) {
        std::swap(column[k], column[pivots[k]]);
      }
    }
    const int64_t done = std::min(j, m);
    for (int64_t k = 0; k < done; ++k) {  // the upper part: a unit triangle's solution
      factors[k] = -column[k];
      for (int64_t i = k + 1; i < done; ++i) {
        column[i] += factors[k] * panel(k, i);
      }
    }
    if (j >= m) {
      continue;
    }
    lines.add(column + done, panel.data + done, panel.stride, factors, done, m - done);
    int64_t best = j;
    for (int64_t i = j + 1; i < m; ++i) {
      best = std::fabs(column[i]) > std::fabs(column[best]) ? i : best;
    }
    pivots[j] = best;
    if (column[best] == T(0)) {
      info = info == 0 ? j + 1 : info;
      continue;
    }
    if (best != j) {
      for (int64_t k = 0; k <= j; ++k) {
        std::swap(panel(k, j), panel(k, best));
      }
    }
    const T pivot = column[j];
    for (int64_t i = j + 1; i < m; ++i) {
      column[i] /= pivot;
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      a(i, j) = panel(j, i);
    }
  }
  return info;
}

template <typename T>
void exchange_rows(const Dense<T>& a, const int64_t* pivots, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (pivots[i] != i) {
      std::swap_ranges(a[i], a[i] + a.cols, a[pivots[i]]);
    }
  }
}

template <typename T>
Error factor_columns(DenseWork<T>& work, const Dense<T>& a, T* panel, int64_t* pivots, int64_t* info) {
  ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "LU factors: cancelled");
  const int64_t m = a.rows, n = std::min(a.rows, a.cols);
  if (n <= kLeaf && a.cols <= kLeaf) {
    *info = factor_panel(work.lines, a, {panel, a.cols, m, m}, pivots);
    return Error::Ok;
  }
  const int64_t left = n <= kLeaf ? n : half_of(n), right = a.cols - left;
  ET_RETURN_IF_ERROR(factor_columns(work, a.block(0, 0, m, left), panel, pivots, info));
  const Dense<T> beside = a.block(0, left, m, right);
  exchange_rows(beside, pivots, left);
  const Dense<T> upper = beside.block(0, 0, left, right), rest = beside.block(left, 0, m - left, right);
  ET_RETURN_IF_ERROR(solve_triangle(work, Triangle<T>{a.data, left, a.stride, 1, true, true}, upper));
  if (left == n) {
    return work.subtract(a.block(left, 0, m - left, left), upper, rest);
  }
  ET_RETURN_IF_ERROR(work.subtract(a.block(left, 0, m - left, left), upper, rest));
  int64_t found = 0;
  ET_RETURN_IF_ERROR(factor_columns(work, rest, panel, pivots + left, &found));
  exchange_rows(a.block(left, 0, m - left, left), pivots + left, n - left);
  for (int64_t i = left; i < n; ++i) {
    pivots[i] += left;
  }
  *info = *info == 0 && found > 0 ? left + found : *info;
  return Error::Ok;
}

template <typename T>
int64_t factor_definite_leaf(const MatrixLines<T>& lines, const Dense<T>& a) {
  T factors[kLeaf];
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < i; ++k) {
      factors[k] = -a(k, i);
    }
    lines.add(a[i] + i, a.data + i, a.stride, factors, i, a.cols - i);
    const T square = a(i, i);
    if (!(square > T(0))) {
      return i + 1;
    }
    const T root = std::sqrt(square);
    for (int64_t j = i; j < a.cols; ++j) {
      a(i, j) /= root;
    }
    a(i, i) = root;
  }
  return 0;
}

}  // namespace

template <typename T>
Error DenseWork<T>::product(const DenseOperand<T>& left, const DenseOperand<T>& right, const Dense<T>& out,
                            bool accumulate, bool negate) {
  ET_CHECK_OR_RETURN(!context_.cancelled(), Cancelled, "linear algebra: cancelled");
  constexpr ScalarType kType = sizeof(T) == sizeof(float) ? ScalarType::Float : ScalarType::Double;
  const matmul::StridedMatrix l{left.data, kType, left.row_stride, left.col_stride};
  const matmul::StridedMatrix r{right.data, kType, right.col_stride, right.row_stride};
  matmul::GemmOf<T> gemm{static_cast<size_t>(out.rows),   static_cast<size_t>(out.cols),
                         static_cast<size_t>(left.cols),  matmul::strips_for<T>(l),
                         matmul::strips_for<T>(r),        out.data,
                         static_cast<size_t>(out.stride), accumulate};
  const NegatedOperand<T> negated{gemm.left};
  if (negate) {
    gemm.left = {&NegatedOperand<T>::pack, &negated};
  }
  strips_.reset();
  KernelContext inner(&strips_, nullptr, context_.pool(), nullptr, nullptr);
  return matmul::multiply(inner, gemm);
}

template <typename T>
Error solve_triangle(DenseWork<T>& work, const Triangle<T>& a, const Dense<T>& b) {
  if (b.cols == 0) {
    return Error::Ok;
  }
  if (a.n <= kLeaf) {
    solve_leaf(work.lines, a, b);
    return Error::Ok;
  }
  const int64_t upper = half_of(a.n), lower = a.n - upper;
  const auto part = [&](int64_t row, int64_t col) { return a.data + row * a.row_stride + col * a.col_stride; };
  const Triangle<T> first{a.data, upper, a.row_stride, a.col_stride, a.lower, a.unit};
  const Triangle<T> second{part(upper, upper), lower, a.row_stride, a.col_stride, a.lower, a.unit};
  const Dense<T> top = b.block(0, 0, upper, b.cols), bottom = b.block(upper, 0, lower, b.cols);
  if (a.lower) {
    ET_RETURN_IF_ERROR(solve_triangle(work, first, top));
    ET_RETURN_IF_ERROR(work.subtract({part(upper, 0), lower, upper, a.row_stride, a.col_stride}, top, bottom));
    return solve_triangle(work, second, bottom);
  }
  ET_RETURN_IF_ERROR(solve_triangle(work, second, bottom));
  ET_RETURN_IF_ERROR(work.subtract({part(0, upper), upper, lower, a.row_stride, a.col_stride}, bottom, top));
  return solve_triangle(work, first, top);
}

template <typename T>
Error factor_lu(DenseWork<T>& work, const Dense<T>& a, int64_t* pivots, int64_t* info) {
  *info = 0;
  ET_TRY(T * panel, work.vector(lu_numbers(a.rows)));
  return factor_columns(work, a, panel, pivots, info);
}

template <typename T>
Error factor_cholesky(DenseWork<T>& work, const Dense<T>& a, int64_t* info) {
  const int64_t n = a.rows;
  if (n <= kLeaf) {
    *info = factor_definite_leaf(work.lines, a);
    return Error::Ok;
  }
  const int64_t left = half_of(n), right = n - left;
  ET_RETURN_IF_ERROR(factor_cholesky(work, a.block(0, 0, left, left), info));
  if (*info != 0) {
    return Error::Ok;
  }
  const Dense<T> beside = a.block(0, left, left, right);
  ET_RETURN_IF_ERROR(solve_triangle(work, Triangle<T>{a.data, left, 1, a.stride, true, false}, beside));
  constexpr int64_t kColumns = 192;  // of the rest, of which the upper triangle is wanted
  for (int64_t j = 0; j < right; j += kColumns) {
    const int64_t width = std::min(kColumns, right - j), height = j + width;
    ET_RETURN_IF_ERROR(work.subtract(transposed(beside.block(0, 0, left, height)), beside.block(0, j, left, width),
                                     a.block(left, left + j, height, width)));
  }
  ET_RETURN_IF_ERROR(factor_cholesky(work, a.block(left, left, right, right), info));
  *info += *info > 0 ? left : 0;
  return Error::Ok;
}

#define ET_INSTANTIATE(T)                                                                          \
  template class DenseWork<T>;                                                                     \
  template Error solve_triangle(DenseWork<T>& work, const Triangle<T>& a, const Dense<T>& b);      \
  template Error factor_lu(DenseWork<T>& work, const Dense<T>& a, int64_t* pivots, int64_t* info); \
  template Error factor_cholesky(DenseWork<T>& work, const Dense<T>& a, int64_t* info);
ET_INSTANTIATE(float)
ET_INSTANTIATE(double)
#undef ET_INSTANTIATE

}  // namespace et::kernels::optimized::linalg
