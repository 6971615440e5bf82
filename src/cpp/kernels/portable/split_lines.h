/// Where a matrix with numbers on the diagonal and beside it falls apart.
///
/// For: the iterations that make such a matrix diagonal (tridiagonal.h, bidiagonal.h).
#pragma once

#include <cmath>
#include <cstdint>

namespace et::kernels::portable {

/// The first of the rows that hang together with row `hi`. The number of `e` before it, between it and the row above,
/// is at most `epsilon` times its neighbours in `d`, or at most `nothing`, and becomes zero.
inline int64_t first_row_of_block(const double* d, double* e, int64_t hi, double epsilon, double nothing) {
  int64_t lo = hi;
  while (lo > 0 && std::fabs(e[lo - 1]) > epsilon * (std::fabs(d[lo - 1]) + std::fabs(d[lo])) &&
         std::fabs(e[lo - 1]) > nothing) {
    --lo;
  }
  if (lo > 0) {
    e[lo - 1] = 0.0;
  }
  return lo;
}

}  // namespace et::kernels::portable
