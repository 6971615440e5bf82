/// Everything that this build holds: kernel libraries and backends, registered from the generated tables.
#pragma once

#include "runtime/backend.h"
#include "runtime/kernel.h"

namespace et::tools {

/// Adds all of them. Errors: those of the registries.
Error register_all(runtime::KernelRegistry& kernels, runtime::BackendRegistry& backends);

}  // namespace et::tools
