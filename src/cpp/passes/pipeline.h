/// The one order of passes, before and after delegates are cut out.
///
/// For: the driver and et_opt. pipeline.cpp has the reason for each line.
#pragma once

#include <string_view>

#include "base/span.h"
#include "ir/graph.h"

namespace et::passes {

/// Semantics only: nothing that a backend would want to see whole is fused or renamed; tags are respected.
Span<const std::string_view> before_cut();

/// On what is left for our own kernels; ends at Stage::kLowered, ready for planning.
Span<const std::string_view> after_cut();

/// Drops constants and buffers that no method refers to (weights that passes replaced).
void drop_unused_symbols(ir::Program& program);

}  // namespace et::passes
