#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Removes nodes whose results nobody uses.
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  every node of a known operator has a use, or writes an argument, or is in a region that does. Operators
///           that the table does not know stay: they may do more than compute.
/// Cost:     O(nodes), one walk from the end.
/// Example:  %a = aten::relu(%x); return %x   =>   return %x
class EliminateDeadCode final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
