#include "kernels/optimized/register.h"

#include "base/log.h"
#include "kernels/optimized/table_headers.inc"
#include "kernels/optimized/vec/targets.h"
#include "runtime/host/instruction_set.h"

#include <hwy/targets.h>

namespace et::kernels::optimized {

namespace {

constexpr Span<const Kernel> (*kTables[])() = {
#include "kernels/optimized/tables.inc"
};

/// Highway's targets above the limit. Better ones have lower bits.
int64_t targets_above(runtime::InstructionSet limit) {
#if HWY_ARCH_X86
  if (limit < runtime::InstructionSet::kAvx512) {
    return (limit >= runtime::InstructionSet::kAvx2 ? HWY_AVX2 : HWY_SSE4) - 1;
  }
#endif
  (void)limit;
  return 0;
}

#ifdef HWY_COMPILE_ONLY_STATIC
/// The build has kernels of one instruction set (ET_INSTRUCTION_SETS=native, or a cross build).
Error check_one_target(int64_t disabled) {
  if ((hwy::SupportedTargets() & HWY_STATIC_TARGET & ~disabled) != 0) {
    return Error::Ok;
  }
  ET_LOG_ERROR(
      "the kernels of this build are compiled for %s alone, which %s: build with ET_INSTRUCTION_SETS=all (make build)",
      hwy::TargetName(HWY_STATIC_TARGET), disabled != 0 ? "ET_MAX_ISA forbids" : "this processor has not");
  return Error::NotSupported;
}
#endif

}  // namespace

Error register_optimized_kernels(runtime::KernelRegistry& registry) {
  ET_TRY(const runtime::InstructionSet limit, runtime::max_instruction_set());
  const int64_t disabled = targets_above(limit);
#ifdef HWY_COMPILE_ONLY_STATIC
  ET_RETURN_IF_ERROR(check_one_target(disabled));
#endif
  if (disabled != 0) {
    hwy::DisableTargets(disabled);
  }
  // Now, and once. A function that is looked up before reads the processor itself at each of its calls. CPUID is some 5
  // us in a virtual machine (it was 2.2 of the 2.3 ms of DS-CNN's first inference).
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  for (const auto table : kTables) {
    ET_RETURN_IF_ERROR(registry.add(table(), "optimized"));
  }
  return Error::Ok;
}

}  // namespace et::kernels::optimized
