/// The passes, and their one order before and after regions become delegates.
///
/// For: the driver and et_opt. pipeline.def has the order, with a reason for each line.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "passes/pass.h"

namespace et::passes {

/// Semantics only: nothing that a backend would want to see whole is fused or renamed; tags are respected.
Span<const std::string_view> before_delegation();

/// On what is left for our own kernels; ends at Stage::kLowered, ready for planning.
Span<const std::string_view> after_delegation();

/// A new pass of this id; nullptr when there is none.
std::unique_ptr<Pass> make_pass(std::string_view id);

/// One of every pass, sorted by id.
std::vector<std::unique_ptr<Pass>> all_passes();

/// Drops constants and buffers that no method refers to (weights that passes replaced).
void drop_unused_symbols(ir::Program& program);

}  // namespace et::passes
