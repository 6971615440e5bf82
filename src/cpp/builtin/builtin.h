/// Everything that this build holds: kernel libraries and backends, registered from the generated tables.
///
/// For: hosts that want all of it: the extension module, the command-line tools, users' applications. Not for:
/// microcontrollers, which register the libraries they chose, each by its own register.h.
///
///     runtime::KernelRegistry kernels;
///     runtime::BackendRegistry backends;
///     ET_RETURN_IF_ERROR(builtin::register_all(kernels, backends));
///     ET_RETURN_IF_ERROR(my_ops::register_kernels(kernels));  // beside it
#pragma once

#include "runtime/backend.h"
#include "runtime/kernel.h"

namespace et::builtin {

/// Adds all of them. Errors: those of the registries.
Error register_all(runtime::KernelRegistry& kernels, runtime::BackendRegistry& backends);

}  // namespace et::builtin
