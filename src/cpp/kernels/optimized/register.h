/// Fast kernels of our own: SIMD with run-time dispatch, shared among the threads of the pool.
///
/// For: builds where speed matters; they stand above the portable kernels and below those of a library or a user, and
/// step aside where arguments do not fit (fitting.h).
/// Not for: microcontrollers, nor as an oracle; the portable kernels are that.
///
///     KernelRegistry registry;
///     register_portable_kernels(registry);
///     register_optimized_kernels(registry);
#pragma once

#include "base/startup.h"
#include "runtime/kernel.h"

namespace et::kernels::optimized {

/// Adds the tables. Errors: RegistrationExceedingMaxKernels.
ET_STARTUP Error register_optimized_kernels(runtime::KernelRegistry& registry);

}  // namespace et::kernels::optimized
