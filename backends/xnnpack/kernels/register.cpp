#include "backends/xnnpack/kernels/kernels.h"

namespace et::backends::xnnpack {

Error register_kernels(runtime::KernelRegistry& registry) {
  ET_RETURN_IF_ERROR(registry.add(kConvolutionKernels));
  ET_RETURN_IF_ERROR(registry.add(kLinearKernels));
  ET_RETURN_IF_ERROR(registry.add(kMatmulKernels));
  ET_RETURN_IF_ERROR(registry.add(kPoolingKernels));
  ET_RETURN_IF_ERROR(registry.add(kResizeKernels));
  return registry.add(kSoftmaxKernels);
}

}  // namespace et::backends::xnnpack
