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

#include "kernels/optimized/vec/fitting.h"

namespace et::kernels::optimized {

/// The elements of a dense tensor, in the order of its memory. Errors: MemoryAllocationFailed.
Result<const float*> floats_of(KernelContext& context, const Tensor& tensor);
/// Where the elements of a dense output go, in the order of its memory. Errors: MemoryAllocationFailed.
Result<float*> floats_for(KernelContext& context, const Tensor& out);
/// Writes what floats_for gave room for; nothing to do for an output of floats.
void write_floats(KernelContext& context, const Tensor& out, const float* values);

}  // namespace et::kernels::optimized
