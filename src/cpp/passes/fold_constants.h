#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Computes at compile time what depends on constants only.
///
/// Requires: Stage::kEdge, verified. Without PassContext::evaluator only views are folded.
/// Ensures:  no node of a known, deterministic operator has constants (or literals) as its only inputs. There are four
///           exceptions. The result is much larger than the inputs. The result is returned: outputs are tensors of
///           their own. The node dequantizes, because folding would undo the quantization of weights; in a file for the
///           official runtime only what that runtime has a kernel for stays. The node only repeats elements (an expand,
///           a comparison or a sum of a row and a column) and its readers take them one by one. Making them costs no
///           more than reading them, and a mask of n x n is made of n numbers. What is computed from such a result is
///           folded all the same, and so is what a product takes as its weight. Views share the bytes of what they
///           view.
/// Cost:     O(nodes) and the kernels.
/// Example:  %w = constant @w; %t = aten::permute_copy(%w, [1, 0])   =>   %t = constant @_derived.forward.t
class FoldConstants final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
