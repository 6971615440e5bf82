#include "kernels/portable/register.h"

#include "kernels/portable/register_headers.inc"

namespace et::kernels::portable {
namespace {

constexpr runtime::Kernel kKernels[] = {
#include "kernels/portable/register_table.inc"
    {nullptr, nullptr, nullptr},  // a build may select none of them
};
constexpr size_t kCount = sizeof(kKernels) / sizeof(kKernels[0]) - 1;

}  // namespace

Span<const runtime::Kernel> portable_kernels() { return {kKernels, kCount}; }

Error register_portable_kernels(runtime::KernelRegistry& registry) {
  return kCount == 0 ? Error::Ok : registry.add(portable_kernels(), "portable");
}

}  // namespace et::kernels::portable
