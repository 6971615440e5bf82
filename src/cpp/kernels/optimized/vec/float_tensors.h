/// Whole tensors as floats, in temporary memory where they are floats of 16 bits.
///
/// For: kernels that read a tensor more than once (norms, softmax). Not for: one pass; float_runs.h converts a piece at
///      a time.
///
///     ET_TRY(const float* const x, floats_of(context, self));
///     ET_TRY(float* const y, floats_for(context, out));
///     …
///     write_floats(context, out, y);
#pragma once

#include <type_traits>

#include "kernels/optimized/vec/fitting.h"

namespace et::kernels::optimized {

/// The elements of a dense tensor, in the order of its memory. Errors: MemoryAllocationFailed.
Result<const float*> floats_of(KernelContext& context, const Tensor& tensor);
/// Where the elements of a dense output go, in the order of its memory. Errors: MemoryAllocationFailed.
Result<float*> floats_for(KernelContext& context, const Tensor& out);
/// Writes what floats_for gave room for; nothing to do for an output of floats.
void write_floats(KernelContext& context, const Tensor& out, const float* values);

// The same of what a kernel computes in, float or double. Tensors of doubles are never converted.

template <typename T>
Result<const T*> numbers_of(KernelContext& context, const Tensor& tensor) {
  if constexpr (std::is_same_v<T, double>) {
    return tensor.const_data_ptr<double>();
  } else {
    return floats_of(context, tensor);
  }
}
/// nullptr where there is none.
template <typename T>
Result<const T*> numbers_of(KernelContext& context, const OptionalTensor& tensor) {
  return tensor ? numbers_of<T>(context, *tensor) : Result<const T*>(nullptr);
}
template <typename T>
Result<T*> numbers_for(KernelContext& context, const Tensor& out) {
  if constexpr (std::is_same_v<T, double>) {
    return out.mutable_data_ptr<double>();
  } else {
    return floats_for(context, out);
  }
}
template <typename T>
void write_numbers(KernelContext& context, const Tensor& out, const T* values) {
  if constexpr (std::is_same_v<T, float>) {
    write_floats(context, out, values);
  }
}

}  // namespace et::kernels::optimized
