/// executor_runner --bundled-program: runs the test cases of a bundle and says how far outputs are from the expected.
#pragma once

#include "devtools/host/etdump_gen.h"
#include "runtime/host/module.h"
#include "tools/runner_options.h"

namespace et::tools {

/// Runs the cases of a method, each of them even when one fails; a line for each. `etdump` may be nullptr.
/// Errors: AccessFailed; those of BundledProgram; NotFound when outputs differ by more than the options allow.
Error run_bundled(const RunnerOptions& options, const runtime::HostOptions& host_options,
                  const runtime::HostMethodOptions& method_options, devtools::ETDumpGen* etdump);

}  // namespace et::tools
