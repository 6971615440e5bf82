/// A row of floats times a matrix that is read as it lies, without packing.
///
/// For: products with one row or one column, which read each number of the matrix once and are bound by memory
/// (row_product.cpp, matmul.cpp). Not for: several rows, which packing pays for (gemm.h).
///
///     multiply_row(context, {x, matrix, nullptr, out, depth, outputs});                 // out = matrix · x
#pragma once

#include <limits>

#include "runtime/kernel_types.h"

namespace et::kernels::optimized::matmul {

/// out[n] = limit(sum over k of x[k] * matrix(n, k) + bias[n])
struct RowProduct {
  const float* x = nullptr;       // [depth]
  const float* matrix = nullptr;  // [outputs, depth], or [depth, outputs] where `outputs_inner`
  const float* bias = nullptr;    // [outputs], or nullptr
  float* out = nullptr;           // [outputs]
  size_t depth = 0;
  size_t outputs = 0;
  bool outputs_inner = false;
  float min = -std::numeric_limits<float>::infinity();
  float max = std::numeric_limits<float>::infinity();
};

/// Computes it on the context's threads; the result does not depend on their number.
void multiply_row(KernelContext& context, const RowProduct& product);

}  // namespace et::kernels::optimized::matmul
