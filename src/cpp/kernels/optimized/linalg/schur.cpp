// Eigenvalues and vectors of general matrices: panels of reflections to Hessenberg's form, then chains of small bulges
// that reach what is outside of their window as one product. Sources: C. Bischof, C. Van Loan, "The WY representation
// for products of Householder matrices", 1987 and J. Dongarra et al., "Block reduction of matrices to condensed forms",
// 1989 (Hessenberg); K. Braman, R. Byers, R. Mathias, "The multishift QR algorithm, part I: maintaining well-focused
// shifts and level 3 performance", 2002; G. Golub, C. Van Loan, "Matrix Computations", 7.6.4 (vectors).

#include <limits>

#include "kernels/optimized/linalg/dense.h"
#include "kernels/portable/schur.h"

namespace et::kernels::optimized::linalg {
namespace {

using portable::SchurWindow;
using portable::ShiftPair;

constexpr int64_t kBulges = 16;           // of two shifts each, three rows apart
constexpr int64_t kWindow = 6 * kBulges;  // rows: the chain moves by its own length
constexpr int64_t kSmall = 96;            // rows that are treated as one window

/// The memory of a decomposition.
template <typename T>
struct SchurWork {
  Dense<T> h;        // [n, n]
  Dense<T> ut;       // [n, n]; no rows: not wanted
  Dense<T> window;   // [kWindow, kWindow]
  Dense<T> turn;     // [kWindow, kWindow]
  Dense<T> product;  // [kWindow, n]
  Dense<T> tall;     // [n, kWindow]
};

template <typename T>
void set_identity(const Dense<T>& a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    std::fill_n(a[i], a.cols, T(0));
    a(i, i) = T(1);
  }
}
template <typename T>
void copy_dense(const Dense<T>& from, const Dense<T>& to) {
  for (int64_t i = 0; i < from.rows; ++i) {
    std::copy_n(from[i], from.cols, to[i]);
  }
}

/// h becomes zero below its first subdiagonal; the rows of `vectors` [n, n] those of the reflections.
template <typename T>
Error reduce_to_hessenberg(DenseWork<T>& work, const Dense<T>& h, const Dense<T>& vectors, T* tau) {
  const int64_t n = h.rows;
  const MatrixLines<T>& lines = work.lines;
  ET_TRY(const Dense<T> products, work.matrix(kPanelWidth, n));  // y = h v t, as rows
  ET_TRY(const Dense<T> triangle, work.matrix(kPanelWidth, kPanelWidth));
  ET_TRY(const Dense<T> first, work.matrix(kPanelWidth, n));
  ET_TRY(const Dense<T> second, work.matrix(kPanelWidth, n));
  ET_TRY(T* const column, work.vector(n));
  for (int64_t i = 0; i < n; ++i) {
    std::fill_n(vectors[i], n, T(0));
    tau[i] = T(0);
  }
  for (int64_t start = 0; start + 2 < n; start += kPanelWidth) {
    ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "eigenvalues: cancelled");
    const int64_t count = std::min(kPanelWidth, n - 2 - start), top = start + 1, below = n - top;
    const Dense<T> v{vectors[start], count, n, n};
    for (int64_t p = 0; p < count; ++p) {
      const int64_t k = start + p, rest = n - k - 1;
      for (int64_t i = top; i < n; ++i) {
        column[i] = h(i, k);
      }
      T factors[kPanelWidth], turned[kPanelWidth];
      if (p > 0) {  // column k of (1 - v t vᵀ)ᵀ (h - y vᵀ)
        for (int64_t j = 0; j < p; ++j) {
          factors[j] = -v(j, k);
        }
        lines.add(column + top, products.data + top, n, factors, p, below);
        lines.dot(v.data + top, n, p, column + top, below, factors);
        for (int64_t j = 0; j < p; ++j) {
          T sum = T(0);
          for (int64_t l = 0; l <= j; ++l) {
            sum += triangle(l, j) * factors[l];
          }
          turned[j] = -sum;
        }
        lines.add(column + top, v.data + top, n, turned, p, below);
      }
      T* const x = v[p] + k + 1;
      std::copy_n(column + k + 1, rest, x);
      T beta;
      tau[k] = make_reflector(lines, x, rest, &beta);
      for (int64_t i = top; i <= k; ++i) {
        h(i, k) = column[i];
      }
      h(k + 1, k) = beta;
      for (int64_t i = k + 2; i < n; ++i) {
        h(i, k) = T(0);
      }
      T* const y = products[p];
      lines.dot(h[top] + k + 1, h.stride, below, x, rest, y + top);
      lines.dot(v.data + k + 1, n, p, x, rest, factors);
      for (int64_t j = 0; j < p; ++j) {
        turned[j] = -factors[j];
      }
      lines.add(y + top, products.data + top, n, turned, p, below);
      for (int64_t i = top; i < n; ++i) {
        y[i] *= tau[k];
      }
      for (int64_t i = 0; i < p; ++i) {  // t grows by a column
        T sum = T(0);
        for (int64_t j = i; j < p; ++j) {
          sum += triangle(i, j) * factors[j];
        }
        triangle(i, p) = -tau[k] * sum;
      }
      for (int64_t j = 0; j < p; ++j) {
        triangle(p, j) = T(0);
      }
      triangle(p, p) = tau[k];
    }
    const Dense<T> t = triangle.block(0, 0, count, count);
    const Dense<T> seen = v.block(0, top, count, below);  // nothing before it
    // Rows above the panel: h -= (h v) t vᵀ.
    const Dense<T> above = h.block(0, top, top, below);
    const Dense<T> hv{first.data, top, count, count}, hvt{second.data, top, count, count};
    ET_RETURN_IF_ERROR(work.multiply(above, transposed(seen), hv));
    ET_RETURN_IF_ERROR(work.multiply(hv, t, hvt));
    ET_RETURN_IF_ERROR(work.subtract(hvt, seen, above));
    // Columns behind the panel: h -= y vᵀ, then from the left.
    const int64_t next = start + count, columns = n - next;
    const Dense<T> behind = h.block(top, next, below, columns);
    ET_RETURN_IF_ERROR(
        work.subtract(transposed(products.block(0, top, count, below)), v.block(0, next, count, columns), behind));
    const Dense<T> vh{first.data, count, columns, columns}, tvh{second.data, count, columns, columns};
    ET_RETURN_IF_ERROR(work.multiply(seen, behind, vh));
    ET_RETURN_IF_ERROR(work.multiply(transposed(t), vh, tvh));
    ET_RETURN_IF_ERROR(work.subtract(transposed(seen), tvh, behind));
  }
  return Error::Ok;
}

/// Rows and columns [begin, end) have been turned by `turn`: the same for what is beside and above them in h, and for
/// ut.
template <typename T>
Error turn_outside(DenseWork<T>& work, const SchurWork<T>& s, int64_t begin, int64_t end, int64_t top, int64_t right) {
  const int64_t size = end - begin, n = s.h.rows;
  const Dense<T> turn = s.turn.block(0, 0, size, size);
  if (right > end) {
    const Dense<T> beside = s.h.block(begin, end, size, right - end),
                   result{s.product.data, size, right - end, right - end};
    ET_RETURN_IF_ERROR(work.multiply(turn, beside, result));
    copy_dense(result, beside);
  }
  if (begin > top) {
    const Dense<T> above = s.h.block(top, begin, begin - top, size), result{s.tall.data, begin - top, size, size};
    ET_RETURN_IF_ERROR(work.multiply(above, transposed(turn), result));
    copy_dense(result, above);
  }
  if (s.ut.rows > 0) {
    const Dense<T> rows = s.ut.block(begin, 0, size, n), result{s.product.data, size, n, n};
    ET_RETURN_IF_ERROR(work.multiply(turn, rows, result));
    copy_dense(result, rows);
  }
  return Error::Ok;
}

/// One chain of bulges through rows lo … hi, a window at a time.
template <typename T>
Error sweep(DenseWork<T>& work, const SchurWork<T>& s, int64_t lo, int64_t hi, const ShiftPair<T>* shifts,
            int64_t bulges, int64_t top, int64_t right) {
  int64_t next[kBulges];
  std::fill_n(next, bulges, lo);
  for (int64_t begin = lo;;) {
    const int64_t end = std::min(begin + kWindow, hi + 1), size = end - begin;
    const bool is_last = end == hi + 1;
    set_identity(s.turn.block(0, 0, size, size));
    const SchurWindow<T> window{&s.h(begin, begin), size, s.h.stride, s.turn.data, size, s.turn.stride};
    for (int64_t b = 0; b < bulges; ++b) {
      const int64_t limit = is_last ? hi : end - 3 - 3 * b;
      if (limit > next[b]) {
        window.chase(lo - begin, hi - begin, next[b] - begin, limit - begin, shifts[b]);
        next[b] = limit;
      }
    }
    ET_RETURN_IF_ERROR(turn_outside(work, s, begin, end, top, right));
    if (is_last) {
      return Error::Ok;
    }
    begin = next[bulges - 1] - 1;
  }
}

/// Shifts: the eigenvalues of the last rows, in pairs. Returns how many pairs.
template <typename T>
int64_t shifts_of(const SchurWork<T>& s, int64_t hi, ShiftPair<T>* shifts) {
  constexpr int64_t kCount = 2 * kBulges;
  const int64_t first = hi + 1 - kCount;
  const Dense<T> copy = s.window.block(0, 0, kCount, kCount);
  copy_dense(s.h.block(first, first, kCount, kCount), copy);
  const SchurWindow<T> window{copy.data, kCount, copy.stride, nullptr, 0, 0};
  if (!window.to_schur([] { return false; })) {
    return 0;
  }
  double re[kCount], im[kCount];
  window.values(re, im);
  int64_t found = 0, single = -1;
  for (int64_t i = 0; i < kCount; ++i) {
    const T real = static_cast<T>(re[i]), imaginary = static_cast<T>(im[i]);
    if (im[i] != 0.0) {
      shifts[found++] = {real, imaginary, real, -imaginary};
      ++i;
    } else if (single >= 0) {
      shifts[found++] = {static_cast<T>(re[single]), T(0), real, T(0)};
      single = -1;
    } else {
      single = i;
    }
  }
  return found;
}

/// h becomes quasi-triangular; where ut has no rows only its blocks on the diagonal are right.
template <typename T>
Error to_schur(DenseWork<T>& work, const SchurWork<T>& s) {
  const int64_t n = s.h.rows;
  const bool whole = s.ut.rows > 0;
  const SchurWindow<T> all{s.h.data, n, s.h.stride, nullptr, 0, 0};
  int64_t hi = n - 1, last_size = n + 1;
  for (int64_t steps = 0; hi >= 0;) {
    ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "eigenvalues: cancelled");
    int64_t lo = hi;
    while (lo > 0 && !all.is_negligible(lo)) {
      --lo;
    }
    if (lo > 0) {
      s.h(lo, lo - 1) = T(0);
    }
    const int64_t size = hi + 1 - lo, top = whole ? 0 : lo, right = whole ? n : hi + 1;
    if (size <= kSmall) {
      set_identity(s.turn.block(0, 0, size, size));
      const SchurWindow<T> window{&s.h(lo, lo), size, s.h.stride, s.turn.data, whole ? size : 0, s.turn.stride};
      const bool is_done = window.to_schur([&] { return work.cancelled(); });
      ET_CHECK_OR_RETURN(!work.cancelled(), Cancelled, "eigenvalues: cancelled");
      ET_CHECK_OR_RETURN(is_done, InvalidState, "eigenvalues: the iteration does not converge");
      if (whole) {
        ET_RETURN_IF_ERROR(turn_outside(work, s, lo, hi + 1, top, right));
      }
      hi = lo - 1;
      steps = 0;
      continue;
    }
    steps = size < last_size ? 1 : steps + 1;
    last_size = size;
    ET_CHECK_OR_RETURN(steps <= 100, InvalidState, "eigenvalues: the iteration does not converge");
    ShiftPair<T> shifts[kBulges];
    int64_t pairs = steps % 10 == 0 ? 0 : shifts_of(s, hi, shifts);
    if (pairs == 0) {
      pairs = 1;
      shifts[0] = all.exceptional_shifts(hi, steps);
    }
    ET_RETURN_IF_ERROR(sweep(work, s, lo, hi, shifts, pairs, top, right));
  }
  return Error::Ok;
}

/// The rows of x become the eigenvectors of the quasi-triangular h, some of their elements at a time.
template <typename T>
Error vectors_of(DenseWork<T>& work, const SchurWork<T>& s, const double* re, const double* im, T* zeros,
                 const Dense<T>& x) {
  const int64_t n = s.h.rows;
  for (int64_t i = 0; i < n; ++i) {
    std::fill_n(x[i], n, T(0));
    zeros[i] = T(0);
  }
  double size = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    size = std::max({size, std::fabs(re[i]), std::fabs(im[i])});
  }
  const T smallest =
      std::max(static_cast<T>(size) * std::numeric_limits<T>::epsilon(), 16 * std::numeric_limits<T>::min());
  const SchurWindow<T> t{s.h.data, n, s.h.stride, nullptr, 0, 0};
  for (int64_t end = n; end > 0;) {
    int64_t begin = std::max<int64_t>(end - kPanelWidth, 0);
    if (begin > 0 && s.h(begin, begin - 1) != T(0)) {
      --begin;
    }
    if (end < n) {
      ET_RETURN_IF_ERROR(work.subtract(x.block(end, end, n - end, n - end),
                                       transposed(s.h.block(begin, end, end - begin, n - end)),
                                       x.block(end, begin, n - end, end - begin)));
    }
    for (int64_t j = begin; j < n; ++j) {
      const bool is_complex = im[j] != 0.0;
      portable::solve_vector<T>(t, begin, end, j, {static_cast<T>(re[j]), static_cast<T>(im[j])}, smallest, x[j],
                                is_complex ? x[j + 1] : zeros);
      j += is_complex ? 1 : 0;
    }
    end = begin;
  }
  return Error::Ok;
}

}  // namespace

template <typename T>
Error eigen_of_general(DenseWork<T>& work, const Dense<T>& a, double* re, double* im, const Dense<T>* vt) {
  const int64_t n = a.rows;
  SchurWork<T> s{a, {}, {}, {}, {}, {}};
  ET_TRY(T* const tau, work.vector(n));
  ET_TRY(const Dense<T> vectors, work.matrix(n, n));
  ET_RETURN_IF_ERROR(reduce_to_hessenberg(work, a, vectors, tau));
  if (vt != nullptr) {
    ET_TRY(s.ut, work.matrix(n, n));
    set_identity(*vt);
    ET_RETURN_IF_ERROR(
        apply_reflectors(work, DenseOperand<T>(vectors.data, n, n, 1, n), 1, tau, n - 1, *vt, false, true));
    transpose_dense(*vt, s.ut);
  }
  ET_TRY(s.window, work.matrix(kWindow, kWindow));
  ET_TRY(s.turn, work.matrix(kWindow, kWindow));
  ET_TRY(s.product, work.matrix(kWindow, n));
  ET_TRY(s.tall, work.matrix(n, kWindow));
  ET_RETURN_IF_ERROR(to_schur(work, s));
  SchurWindow<T>{a.data, n, a.stride, nullptr, 0, 0}.values(re, im);
  if (vt == nullptr) {
    return Error::Ok;
  }
  ET_RETURN_IF_ERROR(vectors_of(work, s, re, im, tau, vectors));
  return work.multiply(vectors, s.ut, *vt);
}

#define ET_INSTANTIATE(T) \
  template Error eigen_of_general(DenseWork<T>& work, const Dense<T>& a, double* re, double* im, const Dense<T>* vt);
ET_INSTANTIATE(float)
ET_INSTANTIATE(double)
#undef ET_INSTANTIATE

}  // namespace et::kernels::optimized::linalg
