// Part of the library that tests/ops calls: which instruction set the vector kernels may take.
#include "runtime/host/instruction_set.h"
#include "kernels/optimized/vec/targets.h"

#include <hwy/targets.h>
#include <cstring>

extern "C" {

/// Holds the vector kernels to an instruction set, by Highway's name for it ("AVX2", which is without AVX-VNNI). False
/// where this build or the processor has it not.
__attribute__((visibility("default"))) bool et_kernel_test_hold_to(const char* name) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (std::strcmp(hwy::TargetName(target), name) == 0) {
      hwy::SetSupportedTargetsForTest(target);
      et::runtime::leave_avx_vnni_out(true);
      return true;
    }
  }
  return false;
}
}
