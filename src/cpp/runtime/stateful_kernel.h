/// Table entries of kernels whose arguments stay boxed: an operator's name and letters, generated from the table.
///
/// For: kernels with a state, which read their arguments in `prepare`. Not for: plain functions (`make_kernel` derives
/// the letters from the function's type).
///
///     #include "ops/signatures/portable/op_matmul.h"  // one header a file of plain kernels
///     constexpr Kernel kKernels[] = {make_stateful_kernel<&prepare, &run>(signature::linear_out)};
#pragma once

#include "ops/signature.h"
#include "runtime/kernel.h"

namespace et::runtime {

/// The entry of a kernel that `Prepare` makes a state for. Memory: `Destroy` frees what the method's does not hold.
template <KernelPrepare Prepare, KernelRun Run, KernelDestroy Destroy = nullptr>
constexpr Kernel make_stateful_kernel(const ops::Signature& signature, uint8_t priority = kPriorityOptimized) {
  return {signature.name, signature.letters, Run, Prepare, Destroy, priority};
}

}  // namespace et::runtime
