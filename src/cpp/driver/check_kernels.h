/// Says at compile time what would fail at load: calls for which no kernel exists.
///
/// For: compile.h, on a program at Stage::kLowered. An operator or an element type that nothing in the runtime computes
/// is an error in the export, with the user's line, not on the device.
#pragma once

#include <set>
#include <string>

#include "ir/diagnostic.h"
#include "ir/graph.h"
#include "runtime/kernel.h"

namespace et::driver {

/// `registry` has the kernels of this build; `target_kernels` the names of those that only the target has.
///
/// Errors: OperatorMissing  no kernel of that name; NotSupported  none for the element type. One diagnostic a node.
Error check_kernels(const ir::Program& program, const runtime::KernelRegistry& registry,
                    const std::set<std::string, std::less<>>& target_kernels, ir::Diagnostics& diagnostics);

}  // namespace et::driver
