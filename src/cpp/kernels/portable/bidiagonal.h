/// Singular values of bidiagonal matrices by QR steps with shifts.
///
/// For: singular_values, whose rotations reach the vectors in plain loops (matrix_svd.cpp) or in vectors
/// (kernels/optimized/linalg/singular.cpp). Not for: matrices that are not bidiagonal yet.
///
/// Source: G. Golub, C. Van Loan, "Matrix Computations", 8.6.2 (Golub-Kahan steps).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/portable/split_lines.h"

namespace et::kernels::portable {

/// The rotation that takes (x, y) to (length, 0): c x + s y, c y - s x.
struct Turn {
  double c = 1.0, s = 0.0, length;
  Turn(double x, double y) : length(std::sqrt(x * x + y * y)) {
    if (length > 1e-150) {
      c = x / length;
      s = y / length;
      return;
    }
    length = std::hypot(x, y);
    if (length > 0.0) {
      c = x / length;
      s = y / length;
    }
  }
};

/// The bidiagonal matrix d, e (above the diagonal) of elements of size 1 at most, on its way to one diagonal. `Rows`:
/// of the transposed left (side 0) and right (side 1) vectors:
///     rotate(side, first, count, c, s)   rows k and k + 1 become c[k - first] x_k + s[…] x_(k+1) and c[…] x_(k+1) -
///     s[…] x_k, for k from
///                                        `first` on
///     turn(side, i, j, c, s)             rows i and j likewise
template <typename Rows>
struct Bidiagonal {
  double *d, *e;
  int64_t n;
  double epsilon;     // numbers below it times their neighbours count as zero
  double* angles[4];  // [n] each: scratch
  Rows& rows;

  /// False where it does not converge, or where `stopped` says so.
  template <typename Stopped>
  bool diagonalise(Stopped&& stopped) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      largest = std::max({largest, std::fabs(d[i]), i + 1 < n ? std::fabs(e[i]) : 0.0});
    }
    int64_t hi = n - 1;
    for (int64_t steps = 0; hi > 0; ++steps) {
      if (steps > 60 * n || stopped()) {
        return false;
      }
      const int64_t lo = first_row_of_block(d, e, hi, epsilon, 0.01 * epsilon * epsilon * largest);
      if (lo == hi) {
        --hi;
        continue;
      }
      const double* const zero =
          std::find_if(d + lo, d + hi + 1, [&](double x) { return std::fabs(x) <= 0.01 * epsilon * largest; });
      if (zero == d + hi + 1) {
        step(lo, hi);
      } else if (zero == d + hi) {
        clear_column(lo, hi);
      } else {
        clear_row(zero - d, hi);
      }
    }
    return true;
  }

 private:
  // d[hi] is 0: the element above it goes up its column.
  void clear_column(int64_t lo, int64_t hi) {
    d[hi] = 0.0;
    double f = e[hi - 1];
    e[hi - 1] = 0.0;
    for (int64_t j = hi - 1; j >= lo; --j) {
      const Turn turn(d[j], f);
      d[j] = turn.length;
      if (j > lo) {
        f = -turn.s * e[j - 1];
        e[j - 1] *= turn.c;
      }
      rows.turn(1, j, hi, turn.c, turn.s);
    }
  }

  // d[i] is 0: the element beside it goes along its row.
  void clear_row(int64_t i, int64_t hi) {
    d[i] = 0.0;
    double f = e[i];
    e[i] = 0.0;
    for (int64_t j = i + 1; j <= hi; ++j) {
      const Turn turn(d[j], f);
      d[j] = turn.length;
      if (j < hi) {
        f = -turn.s * e[j];
        e[j] *= turn.c;
      }
      rows.turn(0, j, i, turn.c, turn.s);
    }
  }

  void step(int64_t lo, int64_t hi) {
    const double above = hi - 1 > lo ? e[hi - 2] : 0.0;
    const double t11 = d[hi - 1] * d[hi - 1] + above * above;
    const double t12 = d[hi - 1] * e[hi - 1];
    const double t22 = d[hi] * d[hi] + e[hi - 1] * e[hi - 1];
    const double half = 0.5 * (t11 - t22);
    const double around = half + std::copysign(std::sqrt(half * half + t12 * t12), half);
    double y = d[lo] * d[lo] - (around == 0.0 ? t22 : t22 - t12 * t12 / around);
    double z = d[lo] * e[lo];
    for (int64_t k = lo; k < hi; ++k) {
      const Turn right_turn(y, z);
      if (k > lo) {
        e[k - 1] = right_turn.length;
      }
      y = right_turn.c * d[k] + right_turn.s * e[k];
      e[k] = right_turn.c * e[k] - right_turn.s * d[k];
      z = right_turn.s * d[k + 1];
      d[k + 1] *= right_turn.c;
      const Turn left_turn(y, z);
      d[k] = left_turn.length;
      y = left_turn.c * e[k] + left_turn.s * d[k + 1];
      d[k + 1] = left_turn.c * d[k + 1] - left_turn.s * e[k];
      if (k + 1 < hi) {
        z = left_turn.s * e[k + 1];
        e[k + 1] *= left_turn.c;
      }
      angles[0][k - lo] = left_turn.c;
      angles[1][k - lo] = left_turn.s;
      angles[2][k - lo] = right_turn.c;
      angles[3][k - lo] = right_turn.s;
    }
    e[hi - 1] = y;
    rows.rotate(0, lo, hi - lo, angles[0], angles[1]);
    rows.rotate(1, lo, hi - lo, angles[2], angles[3]);
  }
};

}  // namespace et::kernels::portable
