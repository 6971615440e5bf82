/// The names that kernels use for tensors and arguments: the runtime's own types, or ATen's in ATen mode.
///
/// For: the one include of a kernel file. A kernel that uses only these names, and those of base, compiles in both
///      modes.
#pragma once

#ifdef ET_ATEN_MODE
#include "aten/kernel_types.h"
#else
#include "runtime/kernel.h"

namespace et::kernels {

using runtime::EValue;
using runtime::IntArrayRef;
using runtime::Kernel;
using runtime::KernelContext;
using runtime::make_kernel;
using runtime::resize_tensor;
using runtime::Scalar;
using runtime::Tensor;
using OptionalTensor = std::optional<Tensor>;
using TensorList = Span<const Tensor>;
using OptionalTensorList = Span<const std::optional<Tensor> >;
using et::element_size;

}  // namespace et::kernels
#endif
