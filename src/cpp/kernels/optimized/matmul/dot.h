/// The product of two runs of doubles, for kernels whose matrix has one row or one column (matmul.cpp).
#pragma once

#include <cstddef>

namespace et::kernels::optimized::matmul {

/// The function for this processor: the sum of a[i] b[i], n elements.
double (*dot_of_doubles())(const double* a, const double* b, size_t n);

}  // namespace et::kernels::optimized::matmul
