/// The kernels of this library, one table a source file, and their registration.
///
/// For: every build that has the backend, with or without delegation. Convolution, linear, matmul and softmax of models
/// run on XNNPACK's operators where the arguments fit, and so do linear and convolution of int8. Elsewhere the next
/// best kernel runs. Not for: fusing more than a clamp; that is the delegate's and the compiler's part.
#pragma once

#include "runtime/kernel.h"

namespace et::backends::xnnpack {

extern const runtime::Kernel kConvolutionKernels[4];
extern const runtime::Kernel kDynamicLinearKernels[1];
extern const runtime::Kernel kLinearKernels[6];
extern const runtime::Kernel kMatmulKernels[2];
extern const runtime::Kernel kQuantizedConvolutionKernels[1];
extern const runtime::Kernel kQuantizedLinearKernels[1];
extern const runtime::Kernel kResizeKernels[2];
extern const runtime::Kernel kSoftmaxKernels[1];

/// Adds all tables. Errors: RegistrationExceedingMaxKernels.
Error register_kernels(runtime::KernelRegistry& registry);

}  // namespace et::backends::xnnpack
