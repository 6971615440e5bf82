#include "kernels/portable/register.h"

#include "kernels/portable/register_headers.inc"

namespace et::kernels::portable {
namespace {

constexpr runtime::Kernel kKernels[] = {
#include "kernels/portable/register_table.inc"
};

}  // namespace

Span<const runtime::Kernel> portable_kernels() { return kKernels; }

Error register_portable_kernels(runtime::KernelRegistry& registry) {
  return registry.add(portable_kernels(), "portable");
}

}  // namespace et::kernels::portable
