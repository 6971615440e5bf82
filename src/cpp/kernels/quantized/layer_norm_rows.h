/// Rows of et::quantized_layer_norm, for kernels that compute them in their own way, with the same integers.
///
/// For: op_layer_norm.cpp, which checks a call and does what is not done for each row, and vectors
/// (optimized/quantized/layer_norm.cpp).
#pragma once

#include "kernels/quantized/affine.h"
#include "numerics/integer_norm.h"

namespace et::kernels::quantized {

struct LayerNormRows {
  IntegerNorm norm;
  NormOutput output;
  Requantizer requantizer;
  const int32_t *weights, *biases;  ///< [length], as NormOutput gives them
  int32_t* distances;               ///< [length]: room for a row's
  ScalarType dtype;                 ///< of the rows, in and out
  int32_t zero_point;               ///< of the input
  int64_t count;                    ///< rows
  const void* in;
  void* out;
};

/// One after the other, in scalars.
void plain_rows(KernelContext& context, const LayerNormRows& rows);

/// The operator; `compute` is called once, with one row and more, all of them checked.
Error layer_norm_by_rows(KernelContext& context, const Tensor& input, double input_scale, int64_t input_zero_point,
                         IntArrayRef normalized_shape, const OptionalTensor& weight, const OptionalTensor& bias,
                         double eps, double output_scale, int64_t output_zero_point, int64_t output_min,
                         int64_t output_max, Tensor& out,
                         void (*compute)(KernelContext& context, const LayerNormRows& rows));

}  // namespace et::kernels::quantized
