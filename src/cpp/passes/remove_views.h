#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Views become other names for the same memory.
///
/// Requires: Stage::kLowered, verified.
/// Ensures:  a view with constant sizes whose bytes are those of its argument, in their order, is an `alias` node (no
///           instruction). So is a change of dim order that moves nothing. view_copy with sizes known at run time is
///           executorch_prim::et_view.default (no copy). Copies stay
///             - of constants (fold-constants takes those) and of what a method or region returns from outside,
///             - of what a branch of cond gives, whose place is known at run time only (view_copy finds out there),
///             - where the caller gives the memory (PassOptions::plan_inputs, plan_outputs).
/// Cost:     O(nodes).
/// Example:  %v = aten::view_copy.out(%x, [4]) : f32[4]   =>   %v = alias(%x) : f32[4] alias(%x)
class RemoveViews final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
