/// Real Schur forms of small matrices, and eigenvectors of quasi-triangular ones.
///
/// For: eigenvalues of general matrices: small ones whole (matrix_schur.cpp), large ones a window at a time
/// (kernels/optimized/linalg/schur.cpp), in float or double. Not for: symmetric matrices (tridiagonal.h).
///
/// Source: G. Golub, C. Van Loan, "Matrix Computations", 7.5 (Francis' QR steps) and 7.6.4 (eigenvectors).
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

namespace et::kernels::portable {

/// Two shifts: a conjugate pair, or two real numbers.
template <typename T>
struct ShiftPair {
  T re1, im1, re2, im2;
};

/// A Hessenberg matrix h [n, n] on its way to Schur's form, and the transposed product of what has turned it, rows of
/// `count` elements (0: not wanted).
template <typename T>
struct SchurWindow {
  T* h;
  int64_t n, stride;
  T* ut;
  int64_t count, ut_stride;

  T& at(int64_t row, int64_t col) const { return h[row * stride + col]; }

  /// Moves the bulge of these shifts through rows lo … hi: reflections that begin in rows [from, to), the first of
  /// which makes it at lo.
  void chase(int64_t lo, int64_t hi, int64_t from, int64_t to, const ShiftPair<T>& shifts) const {
    for (int64_t k = from; k < to; ++k) {
      const int64_t rows = std::min<int64_t>(3, hi - k + 1);
      T v[3] = {};
      if (k == lo) {
        first_column(lo, hi, shifts, v);
      } else {
        for (int64_t i = 0; i < rows; ++i) {
          v[i] = at(k + i, k - 1);
        }
      }
      T largest = T(0);
      for (int64_t i = 1; i < rows; ++i) {
        largest = std::max(largest, std::fabs(v[i]));
      }
      if (largest == T(0)) {
        continue;
      }
      const T scale = std::max(largest, std::fabs(v[0]));
      for (T& x : v) {
        x /= scale;
      }
      const T alpha = v[0];
      const T beta = -std::copysign(std::sqrt(alpha * alpha + v[1] * v[1] + v[2] * v[2]), alpha);
      const T tau = (beta - alpha) / beta;
      v[1] /= alpha - beta;
      v[2] /= alpha - beta;
      if (k > lo) {
        at(k, k - 1) = beta * scale;
        for (int64_t i = 1; i < rows; ++i) {
          at(k + i, k - 1) = T(0);
        }
      }
      turn_rows(h + k * stride, stride, rows, k, n, tau, v);
      turn_columns(k, rows, std::min(k + 3, hi) + 1, tau, v);
      if (count > 0) {
        turn_rows(ut + k * ut_stride, ut_stride, rows, 0, count, tau, v);
      }
    }
  }

  /// Rows i and i + 1 become triangular where their eigenvalues are real.
  void split(int64_t i) const {
    const T a = at(i, i), b = at(i, i + 1), c = at(i + 1, i), d = at(i + 1, i + 1);
    const T half = (a - d) / 2;
    const T size = std::max({std::fabs(half), std::fabs(b), std::fabs(c)});
    if (size == T(0) || c == T(0)) {
      return;
    }
    const T under = half / size * (half / size) + b / size * (c / size);
    if (under < T(0)) {
      return;
    }
    const T z = half + std::copysign(std::sqrt(under) * size, half);
    const T length = std::hypot(z, c);
    const T cosine = z / length, sine = c / length;
    const auto turn = [&](T* x, T* y) {
      const T first = cosine * *x + sine * *y;
      *y = cosine * *y - sine * *x;
      *x = first;
    };
    for (int64_t j = i; j < n; ++j) {
      turn(&at(i, j), &at(i + 1, j));
    }
    for (int64_t j = 0; j < i + 2; ++j) {
      turn(&at(j, i), &at(j, i + 1));
    }
    for (int64_t j = 0; j < count; ++j) {
      turn(ut + i * ut_stride + j, ut + (i + 1) * ut_stride + j);
    }
    at(i + 1, i) = T(0);
  }

  bool is_negligible(int64_t row) const {
    const T beside = std::fabs(at(row, row - 1));
    T around = std::fabs(at(row, row)) + std::fabs(at(row - 1, row - 1));
    if (around == T(0)) {
      around = (row > 1 ? std::fabs(at(row - 1, row - 2)) : T(0)) + (row + 1 < n ? std::fabs(at(row + 1, row)) : T(0));
    }
    return beside <= std::numeric_limits<T>::epsilon() * around || beside < 8 * std::numeric_limits<T>::min();
  }

  /// h becomes quasi-triangular: blocks of two rows on the diagonal have complex eigenvalues. False where it does not
  /// converge, or where `stopped` says so.
  template <typename Stopped>
  bool to_schur(Stopped&& stopped) const {
    int64_t hi = n - 1;
    for (int steps = 0; hi > 0;) {
      int64_t lo = hi;
      while (lo > 0 && !is_negligible(lo)) {
        --lo;
      }
      if (lo > 0) {
        at(lo, lo - 1) = T(0);
      }
      if (lo + 1 >= hi) {
        if (lo + 1 == hi) {
          split(lo);
        }
        hi = lo - 1;
        steps = 0;
        continue;
      }
      if (++steps > 300 || stopped()) {
        return false;
      }
      chase(lo, hi, lo, hi, steps % 10 == 0 ? exceptional_shifts(hi, steps) : shifts_of(hi));
    }
    return true;
  }

  /// The eigenvalues of a quasi-triangular h; of a pair the one above the real axis comes first.
  void values(double* re, double* im) const {
    for (int64_t i = 0; i < n; ++i) {
      if (i + 1 < n && at(i + 1, i) != T(0)) {
        const ShiftPair<T> pair = pair_of(i);
        re[i] = re[i + 1] = static_cast<double>(pair.re1);
        im[i] = static_cast<double>(pair.im1);
        im[i + 1] = -im[i];
        ++i;
      } else {
        re[i] = static_cast<double>(at(i, i));
        im[i] = 0.0;
      }
    }
  }

  /// The eigenvalues of rows i and i + 1.
  ShiftPair<T> pair_of(int64_t i) const {
    const T a = at(i, i), b = at(i, i + 1), c = at(i + 1, i), d = at(i + 1, i + 1);
    const T half = (a - d) / 2, mean = d + half;
    const T size = std::max({std::fabs(half), std::fabs(b), std::fabs(c)});
    if (size == T(0)) {
      return {a, T(0), d, T(0)};
    }
    const T under = half / size * (half / size) + b / size * (c / size);
    const T root = std::sqrt(std::fabs(under)) * size;
    if (under < T(0)) {
      return {mean, root, mean, -root};
    }
    return {mean + root, T(0), mean - root, T(0)};
  }
  /// Shifts that have nothing to do with the last rows' eigenvalues, for matrices that those leave as they are.
  ShiftPair<T> exceptional_shifts(int64_t hi, int64_t steps) const {
    const T size = std::fabs(at(hi, hi - 1)) + std::fabs(at(hi - 1, hi - 2));
    const T mean = T(0.75) * size + (steps % 20 == 0 ? at(hi, hi) : T(0));
    return {mean, T(0.66) * size, mean, T(-0.66) * size};
  }

 private:
  // Two real shifts: twice the one that is nearer to the last element.
  ShiftPair<T> shifts_of(int64_t hi) const {
    ShiftPair<T> pair = pair_of(hi - 1);
    if (pair.im1 == T(0)) {
      const T last = at(hi, hi);
      pair.re1 = pair.re2 = std::fabs(pair.re1 - last) < std::fabs(pair.re2 - last) ? pair.re1 : pair.re2;
    }
    return pair;
  }

  // Of (h - shift 1)(h - shift 2), up to a factor.
  void first_column(int64_t lo, int64_t hi, const ShiftPair<T>& s, T* v) const {
    const T h00 = at(lo, lo), h10 = at(lo + 1, lo), h01 = at(lo, lo + 1), h11 = at(lo + 1, lo + 1);
    const T h21 = lo + 2 <= hi ? at(lo + 2, lo + 1) : T(0);
    const T size = std::fabs(h00 - s.re2) + std::fabs(s.im2) + std::fabs(h10) + std::fabs(h21);
    if (size == T(0)) {
      return;
    }
    const T below = h10 / size;
    v[0] = below * h01 + (h00 - s.re1) * ((h00 - s.re2) / size) - s.im1 * (s.im2 / size);
    v[1] = below * (h00 + h11 - s.re1 - s.re2);
    v[2] = below * h21;
  }

  static void turn_rows(T* x, int64_t step, int64_t rows, int64_t from, int64_t to, T tau, const T* v) {
    T *const x0 = x, *const x1 = x + step, *const x2 = x + 2 * step;
    const T v1 = v[1], v2 = v[2];
    if (rows == 3) {
      for (int64_t j = from; j < to; ++j) {
        const T sum = tau * (x0[j] + v1 * x1[j] + v2 * x2[j]);
        x0[j] -= sum;
        x1[j] -= sum * v1;
        x2[j] -= sum * v2;
      }
      return;
    }
    for (int64_t j = from; j < to; ++j) {
      const T sum = tau * (x0[j] + v1 * x1[j]);
      x0[j] -= sum;
      x1[j] -= sum * v1;
    }
  }
  void turn_columns(int64_t k, int64_t columns, int64_t to, T tau, const T* v) const {
    const T v1 = v[1], v2 = v[2];
    T* x = h + k;
    for (int64_t i = 0; i < to; ++i, x += stride) {
      const T third = columns == 3 ? x[2] : T(0);
      const T sum = tau * (x[0] + v1 * x[1] + v2 * third);
      x[0] -= sum;
      x[1] -= sum * v1;
      if (columns == 3) {
        x[2] = third - sum * v2;
      }
    }
  }
};

/// The rows [begin, end) of an eigenvector of the quasi-triangular t, whose rows from `end` on are known. `re` and `im`
/// [n] hold what those give, negative, in the rows in question (im is zero where the eigenvalue is real). The
/// eigenvalue is that of row `own` (of rows own and own + 1 where it is complex): from there on rows are zero. No block
/// of two rows lies across the borders. `smallest` takes the place of differences of eigenvalues that are less.
template <typename T>
void solve_vector(const SchurWindow<T>& t, int64_t begin, int64_t end, int64_t own, std::complex<T> value, T smallest,
                  T* re, T* im) {
  using Complex = std::complex<T>;
  const auto product = [](Complex a, Complex b) {  // without the care for infinities, which costs a call
    return Complex(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  };
  const auto quotient = [smallest](Complex a, Complex b) {
    const T size = std::max(std::fabs(b.real()), std::fabs(b.imag()));
    if (size < smallest) {
      return Complex(a.real() / smallest, a.imag() / smallest);
    }
    const T c = b.real() / size, d = b.imag() / size, square = (c * c + d * d) * size;
    return Complex((a.real() * c + a.imag() * d) / square, (a.imag() * c - a.real() * d) / square);
  };
  int64_t i = std::min(end - 1, own - 1);
  if (own >= begin && own < end) {
    if (value.imag() == T(0)) {
      re[own] = T(1);
    } else {  // of the block [a, b; c, d]
      const T b = t.at(own, own + 1), c = t.at(own + 1, own);
      const bool upper = std::fabs(b) >= std::fabs(c);
      const Complex other = (value - (upper ? t.at(own, own) : t.at(own + 1, own + 1))) / (upper ? b : c);
      re[own] = upper ? T(1) : other.real();
      im[own] = upper ? T(0) : other.imag();
      re[own + 1] = upper ? other.real() : T(1);
      im[own + 1] = upper ? other.imag() : T(0);
    }
  }
  const int64_t known = std::min(end, value.imag() == T(0) ? own + 1 : own + 2);
  const auto rest = [&](int64_t row, int64_t from) {
    T real = re[row], imaginary = im[row];
    for (int64_t j = from; j < known; ++j) {
      real -= t.at(row, j) * re[j];
      imaginary -= t.at(row, j) * im[j];
    }
    return Complex(real, imaginary);
  };
  while (i >= begin) {
    const bool two = i > begin && t.at(i, i - 1) != T(0);
    if (!two) {
      const Complex x = quotient(rest(i, i + 1), Complex(t.at(i, i)) - value);
      re[i] = x.real();
      im[i] = x.imag();
    } else {
      const Complex first = rest(i - 1, i + 1), second = rest(i, i + 1);
      const Complex a = Complex(t.at(i - 1, i - 1)) - value, d = Complex(t.at(i, i)) - value;
      const T b = t.at(i - 1, i), c = t.at(i, i - 1);
      const Complex determinant = product(a, d) - b * c;
      const Complex x = product(d, first) - b * second, y = product(a, second) - c * first;
      const T size = std::max({std::fabs(a.real()) + std::fabs(a.imag()), std::fabs(b), std::fabs(c), smallest});
      const Complex above = quotient(x / size, determinant / size), below = quotient(y / size, determinant / size);
      re[i - 1] = above.real();
      im[i - 1] = above.imag();
      re[i] = below.real();
      im[i] = below.imag();
    }
    const int64_t top = two ? i - 1 : i;
    const T largest = std::max({std::fabs(re[top]), std::fabs(im[top]), std::fabs(re[i]), std::fabs(im[i])});
    constexpr T kLarge = sizeof(T) == sizeof(float) ? T(1e15) : T(1e120);
    if (largest > kLarge) {  // any multiple of the vector serves
      for (int64_t j = begin; j <= own + 1 && j < t.n; ++j) {
        re[j] /= largest;
        im[j] /= largest;
      }
    }
    i = top - 1;
  }
}

}  // namespace et::kernels::portable
