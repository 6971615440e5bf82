/// Parameters that the loops of quantized/pointwise.cpp share between the instruction sets they are compiled for, and
/// those loops that run_time_scale.cpp calls, too.
#pragma once

#include <cstdint>

#include "kernels/optimized/pointwise/pointwise.h"
#include "kernels/quantized/fixed_point_sum.h"

namespace et::kernels::optimized::quantized {

struct SumParameters {
  kernels::quantized::FixedPointSum sum;
  int32_t zero_point, min, max;
};

/// clamp(round((a - a_zero) * (b - b_zero) * scale), low, high) + zero_point; the bounds are the range less the zero
/// point.
struct ProductParameters {
  float scale, low, high;
  int32_t a_zero, b_zero, zero_point;
};

/// clamp(round(x * inverse) + zero_point, low, high)
struct QuantizeParameters {
  float inverse, zero_point, low, high;
};

/// entries[q ^ flip] for the byte q; the entries are a constant of the program.
struct TableParameters {
  const uint8_t* entries;
  uint8_t flip;
};

/// Loops between floats and 8 or 16 bits. quantize_loop() takes QuantizeParameters, dequantize_loop() the zero point as
/// `a` and the scale as `b`, both floats.
pointwise::BlockFunction quantize_loop(ScalarType to);
pointwise::BlockFunction dequantize_loop(ScalarType from);

/// Such a loop over all elements, on all threads; `numbers` has what it takes. Results have `size` bytes each.
void run_loop(KernelContext& context, pointwise::BlockFunction loop, const Tensor& input, void* out, size_t size,
              const pointwise::PointwiseBlock& numbers);

}  // namespace et::kernels::optimized::quantized
