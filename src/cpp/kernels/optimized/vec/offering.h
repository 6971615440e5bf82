/// Plain kernels that say at load what a call costs, since a library may have one of the same operator.
///
/// For: kernels without a state of operators that backends have kernels of. Not for: kernels with a state, whose
///      `prepare` offers by itself; operators that no library has (fitting.h).
///
///     constexpr Kernel kKernels[] = {make_offering_kernel<&softmax_out, &fits_softmax,
///     &work_of>("aten::_softmax.out")};
#pragma once

#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"
#include "runtime/host/kernel_costs.h"

namespace et::kernels::optimized {

template <bool (*Fits)(Arguments), ops::Work (*WorkOf)(Arguments)>
Error offer_if_fitting(runtime::PrepareContext&, Arguments args, void** state) {
  return Fits(args) ? runtime::offer_work(state, WorkOf(args), ops::kKernelCosts) : Error::NotSupported;
}

/// The table entry of `Function` (see runtime::make_kernel) for arguments that `Fits` accepts.
template <auto Function, bool (*Fits)(Arguments), ops::Work (*WorkOf)(Arguments)>
constexpr Kernel make_offering_kernel(const char* name) {
  Kernel kernel = runtime::make_kernel<Function>(name, kPriorityOffering);
  kernel.prepare = &offer_if_fitting<Fits, WorkOf>;
  return kernel;
}

}  // namespace et::kernels::optimized
