// Tests on every instruction set that the kernels were compiled for and this processor has.

#pragma once

#include "kernels/optimized/vec/targets.h"

#include "runtime/host/instruction_set.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace et::kernels::testing {

/// Calls `test` once for each of them, with the vector kernels held to it; afterwards they choose again.
template <typename Test>
void for_each_instruction_set(Test test) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    test();
    if (target == HWY_AVX2 && runtime::has_avx_vnni()) {
      SCOPED_TRACE("without AVX-VNNI");
      runtime::leave_avx_vnni_out(true);
      test();
      runtime::leave_avx_vnni_out(false);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace et::kernels::testing
