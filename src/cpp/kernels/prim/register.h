/// The primitive operators: what a program computes on sizes and other numbers, and the views it makes while running.
///
/// For: every runtime; a program with dynamic shapes or control flow does not load without them.
/// Not for: anything that computes on the elements of a tensor (kernels/portable).
///
///     ET_RETURN_IF_ERROR(kernels::prim::register_prim_kernels(registry));
///
/// Numbers follow Python: integers that are both ints stay ints, floordiv and mod round towards minus infinity, round()
/// goes to even. Integer overflow wraps. They work on boxed values, since a result replaces an EValue.
#pragma once

#include "base/startup.h"
#include "runtime/kernel.h"

namespace et::kernels::prim {

/// The table.
ET_STARTUP Span<const runtime::Kernel> prim_kernels();

/// Adds the table. Errors: RegistrationExceedingMaxKernels.
ET_STARTUP Error register_prim_kernels(runtime::KernelRegistry& registry);

}  // namespace et::kernels::prim
