/// ir::Graph -> the example backend's payload.
///
/// For: register.cpp. Shows what a preprocess does: walk the part in order, number its values, copy its constants, fuse
/// what the device does at once. Not for: deciding what the backend takes; op_support.py has done that, and what comes
/// here all the same is an error.
///
/// Place: the driver calls preprocess between the passes before and after delegation.
#pragma once

#include "passes/backend_compiler.h"

namespace et::backends::example {

/// Writes the payload of one part. Convolution and a relu that is its only user become one node.
///
/// Errors: NotSupported, with a diagnostic that names the node: an operator or an argument that the device does not
///         know.
Error write_payload(const passes::BackendPart& part, passes::BackendPayload& payload, ir::Diagnostics& diagnostics);

}  // namespace et::backends::example
