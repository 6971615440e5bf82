/// Where a node comes from, as a comment at the end of its line. Read back, so that golden files keep it.
///
///     // fx: linear, in layers.0.attention, model.py:12 forward
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace et::ir {

/// The comment from "// fx: " on; empty when nothing is known.
std::string source_comment(const Source& source);

/// Reads what follows "// fx:". False, and `*source` as it was, when it is not in that form: it is a comment, after
/// all.
bool parse_source_comment(std::string_view comment, Source* source);

}  // namespace et::ir
