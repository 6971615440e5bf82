#include "kernel_harness.h"
#include "kernels/optimized/register.h"
#include "kernels/portable/register.h"
#include "kernels/quantized/register.h"

#define ET_BACKEND_KERNELS(name)                             \
  namespace et::backends::name {                             \
  Error register_kernels(runtime::KernelRegistry& registry); \
  }
#include "backends/kernels_table.inc"
#undef ET_BACKEND_KERNELS

namespace et::kernels::testing {

const runtime::KernelRegistry& test_registry() {
  static const runtime::KernelRegistry registry = [] {
    runtime::KernelRegistry all;
    EXPECT_EQ(portable::register_portable_kernels(all), Error::Ok);
    EXPECT_EQ(quantized::register_quantized_kernels(all), Error::Ok);
    EXPECT_EQ(optimized::register_optimized_kernels(all), Error::Ok);
#define ET_BACKEND_KERNELS(name) EXPECT_EQ(backends::name::register_kernels(all), Error::Ok);
#include "backends/kernels_table.inc"
#undef ET_BACKEND_KERNELS
    return all;
  }();
  return registry;
}

}  // namespace et::kernels::testing
