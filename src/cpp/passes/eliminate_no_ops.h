#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Removes operators that return their first argument, and joins chains of views.
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  no view, copy, expand, slice or conversion has a result of its argument's type (values and order equal).
///           No dropout outside training is left, no padding by nothing, no cat of one tensor, and no expand for
///           arithmetic that repeats elements by itself or for attention's mask. View of view and permute of permute
///           are one. What a method returns stays a tensor of its own when it would become an input, constant or
///           buffer.
/// Cost:     O(nodes).
/// Example:  %a = aten::clone(%x, none); relu(%a)   =>   relu(%x)
class EliminateNoOps final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
