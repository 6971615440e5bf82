/// The kernels of this folder, one a file, and the test that says which calls each of them takes.
///
/// Tests run at load, so that they are made small (cold). A test may use what never changes: dtypes, ranks, dim orders,
/// numbers and lists of the program. Sizes are at their bounds then, so that a kernel takes every size below. The plain
/// kernel takes what does not fit.
#pragma once

#include "kernels/portable/register_headers.inc"
#include "kernels/quantized/register_headers.inc"
#include "runtime/kernel_types.h"

namespace et::kernels::cortex_m {

using Arguments = Span<EValue* const>;

#define ET_CORTEX_M_KERNEL(library, name, op, in_place, overlaps) \
  decltype(library::name##_out) name##_out; /*NOLINT*/            \
  [[gnu::cold]] bool fits_##name(Arguments args);
#include "kernels/cortex_m/rows.inc"
#undef ET_CORTEX_M_KERNEL

/// True for a tensor of int8.
inline bool is_int8(const EValue& value) {
  return value.is_tensor() && value.to_tensor().scalar_type() == ScalarType::Char;
}

/// True for tensors of one shape, an element of each at the same place.
bool lie_alike(const Tensor& a, const Tensor& b);

/// True for tensors that share no byte, and for those that have no memory yet.
bool lie_apart(const Tensor& a, const Tensor& b);

/// True for [batch, channels, height, width] that lies in memory as [batch, height, width, channels]; with rank 3, for
/// [batch, channels, steps] that lies as [batch, steps, channels].
bool is_channels_last(const Tensor& tensor, int64_t rank = 4);

}  // namespace et::kernels::cortex_m
