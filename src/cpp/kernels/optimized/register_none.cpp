// A build without SIMD kernels (ET_BUILD_OPTIMIZED=OFF): the portable ones do everything.
#include "kernels/optimized/register.h"

namespace et::kernels::optimized {

Error register_optimized_kernels(runtime::KernelRegistry& registry) {
  static_cast<void>(registry);
  return Error::Ok;
}

}  // namespace et::kernels::optimized
