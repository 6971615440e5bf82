#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Writes products with weights as aten::linear, which keeps the weight in the order that kernels pack.
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  addmm(b, x, w.T) and mm(x, w.T) are linear(x, w, b), when b has one dim and the factors of addmm are 1. A
///           product with a constant [in, out] becomes linear with its transpose, which fold-constants computes, when
///           the constant is used for such products only (or the file would hold it twice).
/// Cost:     O(nodes).
/// Example:  %t = aten::permute_copy(%w, [1, 0]); %y = aten::addmm(%b, %x, %t, 1, 1)
///           =>   %y = aten::linear(%x, %w, %b)
class FuseLinear final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
