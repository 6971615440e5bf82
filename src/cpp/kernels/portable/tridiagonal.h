/// Eigenvalues of symmetric tridiagonal matrices by QL steps with shifts.
///
/// For: symmetric_eigen, whose rotations reach the vectors in plain loops (matrix_eigen.cpp) or in vectors
/// (kernels/optimized/linalg/eigen.cpp). Not for: matrices that are not tridiagonal yet.
///
/// Source: G. Golub, C. Van Loan, "Matrix Computations", 8.3.3 (implicit symmetric QR, here from the end).
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/portable/split_lines.h"

namespace et::kernels::portable {

/// One step on rows lo … hi, whose shift is the eigenvalue near d[lo], or with `mirrored` all the other way round, near
/// d[hi]. Returns how many of the rotations [hi - lo], in c and s by their first row, count: all, or those from the
/// step's start on.
inline int64_t tridiagonal_step(double* d, double* e, int64_t lo, int64_t hi, bool mirrored, double* c, double* s) {
  const auto diagonal = [=](int64_t i) -> double& { return d[mirrored ? lo + hi - i : i]; };
  const auto beside = [=](int64_t i) -> double& { return e[mirrored ? lo + hi - i - 1 : i]; };
  double g = (diagonal(lo + 1) - diagonal(lo)) / (2.0 * beside(lo));
  g = diagonal(hi) - diagonal(lo) + beside(lo) / (g + std::copysign(std::hypot(g, 1.0), g));
  double sine = 1.0, cosine = 1.0, p = 0.0;
  for (int64_t i = hi - 1; i >= lo; --i) {
    const double f = sine * beside(i);
    const double b = cosine * beside(i);
    double length = std::sqrt(f * f + g * g);
    if (length < 1e-150) {  // squares have lost digits
      length = std::hypot(f, g);
    }
    if (i + 1 < hi) {
      beside(i + 1) = length;
    }
    if (length == 0.0) {
      diagonal(i + 1) -= p;
      return hi - 1 - i;
    }
    sine = f / length;
    cosine = g / length;
    g = diagonal(i + 1) - p;
    const double r = (diagonal(i) - g) * sine + 2.0 * cosine * b;
    p = sine * r;
    diagonal(i + 1) = g + p;
    g = cosine * r - b;
    const int64_t row = mirrored ? lo + hi - i - 1 : i;
    c[row] = cosine;
    s[row] = mirrored ? sine : -sine;
  }
  diagonal(lo) -= p;
  beside(lo) = g;
  return hi - lo;
}

/// The diagonal d [n] becomes the eigenvalues, in no order; e [n] (its last element is not read) the numbers beside it,
/// zero. Elements are of size 1 at most; those of e below `epsilon` times their neighbours count as zero. For each
/// step: rotate(first, count, c, s, downward). Rows k and k + 1 of the transposed vectors become c[k - first] x_k + s[k
/// - first] x_(k+1) and c[…] x_(k+1) - s[…] x_k. k goes from first + count - 1 down to first, or with `downward` the
/// other way. rotate returns false to stop. c, s: [n] scratch. False where it stopped or does not converge.
template <typename Rotate>
bool diagonalise(double* d, double* e, int64_t n, double epsilon, double* c, double* s, Rotate&& rotate) {
  int64_t fixed = -1;  // the end of the rows under way that stays while the other gives eigenvalues
  bool mirrored = false;
  int64_t hi = n - 1;
  for (int64_t steps = 0; hi > 0; ++steps) {
    if (steps > 60 * n) {
      return false;
    }
    const int64_t lo = first_row_of_block(d, e, hi, epsilon, 1e-290);
    if (lo == hi) {
      --hi;
      continue;
    }
    if (fixed != (mirrored ? lo : hi)) {  // the smaller end first, as rounding errors are those of the larger one
      mirrored = std::fabs(d[hi]) < std::fabs(d[lo]);
      fixed = mirrored ? lo : hi;
    }
    const int64_t count = tridiagonal_step(d, e, lo, hi, mirrored, c, s);
    const int64_t first = mirrored ? lo : hi - count;
    if (!rotate(first, count, c + first, s + first, mirrored)) {
      return false;
    }
  }
  return true;
}

}  // namespace et::kernels::portable
