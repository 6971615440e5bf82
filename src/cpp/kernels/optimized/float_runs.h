/// Runs of elements of any real type as floats, and back.
///
/// For: kernels whose vector code computes in float, given tensors of 16-bit floats (or of integers whose result is a float).
/// Not for: single elements, or element types that a float does not hold and the result needs (portable/convert.h).
///
///     float line[512];
///     floats_from(ScalarType::BFloat16, data, 1, 512, line);
///     …
///     floats_to(ScalarType::BFloat16, line, 512, out);
///
/// Values are those of portable::load and portable::store; 16-bit floats that lie side by side go through vector code.
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::optimized {

/// out[i] = element i of `data`, whose elements are `stride` elements of `dtype` apart.
void floats_from(ScalarType dtype, const void* data, int64_t stride, size_t n, float* out);
/// Element i of `out` = values[i], rounded to nearest where `dtype` is floating.
void floats_to(ScalarType dtype, const float* values, size_t n, void* out);

}  // namespace et::kernels::optimized
