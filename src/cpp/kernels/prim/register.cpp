#include "kernels/prim/register.h"

#include "kernels/prim/prim_kernels.h"

namespace et::kernels::prim {
namespace {

constexpr runtime::Kernel kKernels[] = {
#include "kernels/prim/prim_table.inc"
};

}  // namespace

Span<const runtime::Kernel> prim_kernels() { return kKernels; }

Error register_prim_kernels(runtime::KernelRegistry& registry) { return registry.add(prim_kernels(), "prim"); }

}  // namespace et::kernels::prim
