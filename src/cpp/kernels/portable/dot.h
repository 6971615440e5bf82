/// The sum of products of two rows of numbers.
///
/// For: portable kernels that multiply matrices row by row. Not for: speed on large matrices
/// (kernels/optimized/matmul/gemm.h).
///
///     const float sum = dot<float>(row, int64_t{1}, column, stride, n);
#pragma once

#include "kernels/portable/arithmetic.h"

namespace et::kernels::portable {

/// Sum of a[i * a_step] * b[i * b_step], accumulated in A; eight partial sums when both are contiguous. Integers wrap.
template <typename A, typename T>
A dot(const T* a, int64_t a_step, const T* b, int64_t b_step, int64_t n) {
  if (a_step != 1 || b_step != 1) {
    A total = 0;
    for (int64_t i = 0; i < n; ++i) {
      total = wrapping_add(total, wrapping_mul(static_cast<A>(a[i * a_step]), static_cast<A>(b[i * b_step])));
    }
    return total;
  }
  A lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t k = 0; k < 8; ++k) {
      lanes[k] = wrapping_add(lanes[k], wrapping_mul(static_cast<A>(a[i + k]), static_cast<A>(b[i + k])));
    }
  }
  for (; i < n; ++i) {
    lanes[0] = wrapping_add(lanes[0], wrapping_mul(static_cast<A>(a[i]), static_cast<A>(b[i])));
  }
  for (int64_t k = 1; k < 8; ++k) {
    lanes[0] = wrapping_add(lanes[0], lanes[k]);
  }
  return lanes[0];
}

}  // namespace et::kernels::portable
