/// Integer kernels for microcontrollers as a table for a KernelRegistry.
///
///     runtime::KernelRegistry registry;
///     ET_RETURN_IF_ERROR(kernels::cortex_m::register_cortex_m_kernels(registry));
///     ET_RETURN_IF_ERROR(kernels::quantized::register_quantized_kernels(registry));  // takes what does not fit here
///
/// Their outputs are those of kernels/quantized, bit for bit, on every core and on the host. They keep no memory: what
/// they plan lies in the temporary memory of one instruction.
#pragma once

#include "base/startup.h"
#include "runtime/kernel.h"

namespace et::kernels::cortex_m {

/// All kernels of this folder that the build selects, ordered by name.
ET_STARTUP Span<const runtime::Kernel> cortex_m_kernels();

/// Adds them. Errors: those of KernelRegistry::add.
ET_STARTUP Error register_cortex_m_kernels(runtime::KernelRegistry& registry);

}  // namespace et::kernels::cortex_m
