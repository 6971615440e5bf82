/// Runs of elements of any real type as floats, and back.
///
/// For: kernels whose vector code computes in float, given tensors of 16-bit floats (or of integers whose result is a
/// float). Not for: single elements, or element types that a float does not hold and the result needs
/// (portable/convert.h).
///
///     float line[512];
///     floats_from(ScalarType::BFloat16, data, 1, 512, line);
///     …
///     floats_to(ScalarType::BFloat16, line, 512, out);
///
/// elements_of, elements_for, write_elements and store_floats do the same for a run of a tensor, unless its elements
/// are what they are to be. Values are those of portable::load and portable::store; 16-bit floats that lie side by side
/// go through vector code.
#pragma once

#include <type_traits>

#include "runtime/kernel_types.h"

namespace et::kernels::optimized {

/// out[i] = element i of `data`, whose elements are `stride` elements of `dtype` apart.
void floats_from(ScalarType dtype, const void* data, int64_t stride, size_t n, float* out);
/// Element i of `out` = values[i], rounded to nearest where `dtype` is floating.
void floats_to(ScalarType dtype, const float* values, size_t n, void* out);

/// Elements [at, at + n) of a dense tensor, in the order of its memory, as T: float, or double where the tensor's are
/// doubles. In `buffer` unless they are that already.
template <typename T>
const T* elements_of(const Tensor& tensor, size_t at, size_t n, T* buffer) {
  if (tensor.scalar_type() == dtype_of<T>) {
    return static_cast<const T*>(tensor.const_data_ptr()) + at;
  }
  if constexpr (std::is_same_v<T, float>) {
    const auto* const data = static_cast<const char*>(tensor.const_data_ptr());
    floats_from(tensor.scalar_type(), data + at * tensor.element_size(), 1, n, buffer);
  }
  return buffer;
}
/// Writes n floats from element `at` of a dense output on, whatever its type is.
inline void store_floats(const Tensor& out, size_t at, const float* values, size_t n) {
  floats_to(out.scalar_type(), values, n, static_cast<char*>(out.mutable_data_ptr()) + at * out.element_size());
}
/// Where elements of a dense output from `at` on go: `buffer` unless they are of T.
template <typename T>
T* elements_for(const Tensor& out, size_t at, T* buffer) {
  return out.scalar_type() == dtype_of<T> ? static_cast<T*>(out.mutable_data_ptr()) + at : buffer;
}
/// Writes the n elements that elements_for gave room for; nothing to do for an output of T.
template <typename T>
void write_elements(const Tensor& out, size_t at, size_t n, const T* values) {
  if constexpr (std::is_same_v<T, float>) {
    if (out.scalar_type() != ScalarType::Float) {
      store_floats(out, at, values, n);
    }
  }
}

}  // namespace et::kernels::optimized
