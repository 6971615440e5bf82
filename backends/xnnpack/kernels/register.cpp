#include "backends/xnnpack/kernels/kernels.h"

namespace et::backends::xnnpack {

Error register_kernels(runtime::KernelRegistry& registry) {
  ET_RETURN_IF_ERROR(registry.add(kConvolutionKernels, "xnnpack"));
  ET_RETURN_IF_ERROR(registry.add(kDynamicLinearKernels, "xnnpack"));
  ET_RETURN_IF_ERROR(registry.add(kLinearKernels, "xnnpack"));
  ET_RETURN_IF_ERROR(registry.add(kMatmulKernels, "xnnpack"));
  ET_RETURN_IF_ERROR(registry.add(kQuantizedConvolutionKernels, "xnnpack"));
  ET_RETURN_IF_ERROR(registry.add(kQuantizedLinearKernels, "xnnpack"));
  ET_RETURN_IF_ERROR(registry.add(kResizeKernels, "xnnpack"));
  return registry.add(kSoftmaxKernels, "xnnpack");
}

}  // namespace et::backends::xnnpack
