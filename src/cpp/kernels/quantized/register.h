/// The kernels of integer operators (et::quantized_*, dynamic and weight-only products) as a table for a
/// KernelRegistry.
///
///     runtime::KernelRegistry registry;
///     ET_RETURN_IF_ERROR(kernels::quantized::register_quantized_kernels(registry));
///
/// Which kernels it holds: ops.yaml, cut down by -DET_SELECT_OPS. Not here: quantize, dequantize and the choice of
/// parameters, which are portable kernels.
#pragma once

#include "base/startup.h"
#include "runtime/kernel.h"

namespace et::kernels::quantized {

/// All kernels of this folder, ordered by name.
ET_STARTUP Span<const runtime::Kernel> quantized_kernels();

/// Adds them. Errors: those of KernelRegistry::add.
ET_STARTUP Error register_quantized_kernels(runtime::KernelRegistry& registry);

}  // namespace et::kernels::quantized
