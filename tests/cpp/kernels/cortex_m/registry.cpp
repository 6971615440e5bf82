#include "../optimized/kernel_harness.h"
#include "kernels/cortex_m/register.h"
#include "kernels/portable/register.h"
#include "kernels/quantized/register.h"

namespace et::kernels::testing {

const runtime::KernelRegistry& test_registry() {
  static const runtime::KernelRegistry& registry = []() -> const runtime::KernelRegistry& {
    static runtime::KernelRegistry made;
    EXPECT_EQ(portable::register_portable_kernels(made), Error::Ok);
    EXPECT_EQ(quantized::register_quantized_kernels(made), Error::Ok);
    EXPECT_EQ(cortex_m::register_cortex_m_kernels(made), Error::Ok);
    return made;
  }();
  return registry;
}

}  // namespace et::kernels::testing
