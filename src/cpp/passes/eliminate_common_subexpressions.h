#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Merges nodes that compute the same value.
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  no two nodes of a graph with equal op, symbol, arguments, tag and result types, unless the operator draws
///           random numbers, writes its arguments, is unknown to the table, or both results are returned (a method's
///           outputs stay tensors of their own).
/// Cost:     O(nodes), one hash table.
/// Example:  %a = aten::relu(%x); %b = aten::relu(%x); add(%a, %b)   =>   %a = aten::relu(%x); add(%a, %a)
class EliminateCommonSubexpressions final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
