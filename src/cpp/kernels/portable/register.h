/// The portable kernels as a table for a KernelRegistry.
///
///     runtime::KernelRegistry registry;
///     ET_RETURN_IF_ERROR(kernels::portable::register_portable_kernels(registry));
///
/// Which kernels it holds: ops.yaml, cut down by -DET_SELECT_OPS. No static initialisers: nothing is there until
/// called.
#pragma once

#include "base/startup.h"
#include "runtime/kernel.h"

namespace et::kernels::portable {

/// All portable kernels of this build, ordered by name.
ET_STARTUP Span<const runtime::Kernel> portable_kernels();

/// Adds them. Errors: those of KernelRegistry::add.
ET_STARTUP Error register_portable_kernels(runtime::KernelRegistry& registry);

}  // namespace et::kernels::portable
