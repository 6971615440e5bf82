#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Uses the operator that computes only what is used.
///
/// Requires: Stage::kEdge, verified. An extension: the lesser operators are ours.
/// Ensures:  no max_pool2d_with_indices whose indices nobody uses: it is max_pool2d, which needs no memory for them;
///           no _linalg_svd that computes vectors which nobody uses.
/// Cost:     O(nodes).
/// Example:  %y, %i = aten::max_pool2d_with_indices(%x, …)   =>   %y = aten::max_pool2d(%x, …)
class DropUnusedResults final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
