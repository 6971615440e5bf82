/// Rows of floats as 8-bit integers, with parameters that are chosen at the call, in vectors and on all threads.
///
/// For: kernels whose input becomes integers at the call (dynamic_linear.cpp, run_time_scale.cpp). Not for: parameters
/// that are known at export (pointwise.cpp).
///
/// The integers are those of numerics/run_time_quantization.h, bit for bit.
#pragma once

#include "numerics/run_time_quantization.h"
#include "runtime/kernel_types.h"

namespace et::kernels::optimized::quantized {

/// What rows become. A row's columns are groups, each with zeros behind it up to `padded` numbers.
struct QuantizedRows {
  size_t rows, groups, group, padded;
  int8_t* integers = nullptr;  ///< [rows, groups, padded], moved so that the least integer of the range is -128
  int32_t* zeros = nullptr;    ///< [rows]: the zero point, moved likewise
  int32_t* sums = nullptr;     ///< [rows, groups]: of the integers less the zero point; nullptr: not wanted
  float* scales = nullptr;     ///< [rows]

  /// Gives them memory of the call. Errors: MemoryAllocationFailed.
  Error allocate(KernelContext& context);
};

/// Of n numbers, on all threads. Errors: MemoryAllocationFailed.
Result<NumberRange> range_of(KernelContext& context, const float* x, size_t n);

/// x [rows, groups, group] -> to. Errors: InvalidArgument, naming `op`, for a number that is not finite;
/// MemoryAllocationFailed.
Error quantize_rows(KernelContext& context, const char* op, const RunTimeQuantization& choice, const float* x,
                    const QuantizedRows& to);

}  // namespace et::kernels::optimized::quantized
