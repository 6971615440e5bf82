/// Delegates in the text form, for parser.cpp.
///
///     delegate "Backend" spec("key", "value") step(7, "aten::relu", "relu_1", "head.act", "m.py", 12, 7) = "payload"
#pragma once

#include "ir/graph.h"
#include "ir/scanner.h"

namespace et::ir {

/// Reads what stands behind the word `delegate`; false after recording the error.
bool parse_delegate(Scanner& scan, Delegate* delegate);

}  // namespace et::ir
