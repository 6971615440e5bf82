#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Computes at compile time what depends on constants only.
///
/// Requires: Stage::kEdge, verified. Without PassContext::evaluator only views are folded.
/// Ensures:  no node of a known, deterministic operator has constants (or literals) as its only inputs, unless the
///           result is much larger than they are, or is returned (outputs are tensors of their own), or the node
///           dequantizes (folding that would undo the quantisation of weights; in a file for the official runtime only
///           what that has a kernel for stays), or the node only repeats elements (an expand, a comparison or a sum of
///           a row and a column) and its readers take them one by one: to make them costs no more than to read them,
///           and a mask of n x n is made of n numbers. What is computed from such a result is folded all the same, and
///           so is what a product takes as its weight. Views share the bytes of what they view.
/// Cost:     O(nodes) and the kernels.
/// Example:  %w = constant @w; %t = aten::permute_copy(%w, [1, 0])   =>   %t = constant @_derived.forward.t
class FoldConstants final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
