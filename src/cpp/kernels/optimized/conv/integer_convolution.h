/// Convolutions of integers with few filters in a group, whose product of matrices would be mostly packing.
#pragma once

#include "kernels/optimized/conv/convolution_windows.h"

namespace et::kernels::optimized::conv {

/// out = bias + input * weight of every image and group, in the elements' own type, which wraps. All row-major and of
/// an integer type; `bias` may be nullptr. Errors: Cancelled.
Error convolve_integers(KernelContext& context, const ConvolutionProblem& problem, const void* input,
                        const void* weight, const void* bias, void* out);

}  // namespace et::kernels::optimized::conv
