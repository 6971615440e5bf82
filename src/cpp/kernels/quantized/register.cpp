#include "kernels/quantized/register.h"

#include "kernels/quantized/register_headers.inc"

namespace et::kernels::quantized {
namespace {

constexpr runtime::Kernel kKernels[] = {
#include "kernels/quantized/register_table.inc"
    {nullptr, nullptr, nullptr},  // a build may select none of them
};
constexpr size_t kCount = sizeof(kKernels) / sizeof(kKernels[0]) - 1;

}  // namespace

Span<const runtime::Kernel> quantized_kernels() { return {kKernels, kCount}; }

Error register_quantized_kernels(runtime::KernelRegistry& registry) {
  return kCount == 0 ? Error::Ok : registry.add(quantized_kernels(), "quantized");
}

}  // namespace et::kernels::quantized
