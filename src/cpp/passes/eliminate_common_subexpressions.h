#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Merges nodes that compute the same value.
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  no two nodes of a graph have equal op, symbol, arguments, tag and result types. Exceptions are operators
///           that draw random numbers, write their arguments or are unknown to the table, and results that are both
///           returned (a method's outputs stay tensors of their own).
/// Cost:     O(nodes), one hash table.
/// Example:  %a = aten::relu(%x); %b = aten::relu(%x); add(%a, %b)   =>   %a = aten::relu(%x); add(%a, %a)
class EliminateCommonSubexpressions final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
