/// Convolutions of step one over images with their border around them: no windows are packed.
///
/// For: convolution.cpp, with floats of 16 bits, and with floats where a group has few output channels. Not for: other
///      steps, transposed ones.
///
/// With the border around the image, tap t of every window lies a fixed distance from the window's first element, so
/// that the sums of neighbouring positions are products of vectors read in place. Positions are those of the image with
/// its border; what lies at the end of a row is computed and left out.
#pragma once

#include "kernels/optimized/conv/convolution_windows.h"

namespace et::kernels::optimized::conv {

/// True for problems that direct_convolution takes and whose border does not outgrow the image.
bool suits_direct(const ConvolutionProblem& problem);

/// All images and groups; row-major, `bias` may be nullptr. Errors: MemoryAllocationFailed, Cancelled.
Error direct_convolution(KernelContext& context, const ConvolutionProblem& problem, const void* input,
                         const void* weight, const void* bias, void* out);

}  // namespace et::kernels::optimized::conv
