#include "kernels/optimized/register.h"

#include "kernels/optimized/tables.h"
#include "kernels/optimized/targets.h"

#include <hwy/targets.h>

namespace et::kernels::optimized {

namespace {

#define ET_ADDRESS_OF_TABLE(NAME) &NAME##_kernels,
constexpr Span<const Kernel> (*kTables[])() = {ET_KERNEL_TABLES(ET_ADDRESS_OF_TABLE)};
#undef ET_ADDRESS_OF_TABLE

}  // namespace

Error register_optimized_kernels(runtime::KernelRegistry& registry) {
  // Now, and once. A function that is looked up before asks the processor itself at each of its calls. CPUID is some 5
  // us in a virtual machine (it was 2.2 of the 2.3 ms of DS-CNN's first inference).
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  for (const auto table : kTables) {
    ET_RETURN_IF_ERROR(registry.add(table(), "optimized"));
  }
  return Error::Ok;
}

}  // namespace et::kernels::optimized
