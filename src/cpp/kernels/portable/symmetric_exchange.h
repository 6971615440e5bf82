/// Exchanges of rows and columns in a symmetric matrix of which the lower triangle is stored.
///
/// For: LDL factors with pivots, of either size. Not for: general matrices, whose rows alone are exchanged.
#pragma once

#include <cstdint>
#include <utility>

namespace et::kernels::portable {

/// Exchanges rows and columns p < q of the rest of a lower triangle that begins at `k`; columns in front of `k` are
/// left as they are. `A`: a(row, column) gives a reference, a.rows the size.
template <typename A>
void exchange_symmetric(const A& a, int64_t k, int64_t p, int64_t q) {
  for (int64_t i = q + 1; i < a.rows; ++i) {
    std::swap(a(i, p), a(i, q));
  }
  for (int64_t i = p + 1; i < q; ++i) {
    std::swap(a(i, p), a(q, i));
  }
  std::swap(a(p, p), a(q, q));
  if (p > k) {
    std::swap(a(p, k), a(q, k));
  }
}

}  // namespace et::kernels::portable
