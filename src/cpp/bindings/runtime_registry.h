/// The process's kernels and backends (extension/process.h) for the bindings of programs and methods.
#pragma once

#include "extension/process.h"

namespace et::bindings {

/// extension::process(). Errors (CoreError): those of registering what this build holds.
extension::Process& process_runtime();

}  // namespace et::bindings
