/// Moves dequantization behind operators that only move elements, so that integers are moved and q/dq pairs meet.
#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Requires: Stage::kEdge, verified; an extension, because kernels of other runtimes may not take integers everywhere.
/// Ensures:  an operator of the table in the source whose input is dequantized with one scale (per tensor, untagged) reads the
///           integers instead, and its result is dequantized with the same parameters. Operators that give more elements than
///           they take do so only when every user quantizes. cat does so when all its inputs have the same parameters, or when
///           its only user quantizes: then inputs with other parameters are brought to those first. Constant padding does so
///           for the number 0, which is the zero point. A permutation of a weight with a scale for each channel moves the axis.
///           Values are the same bit for bit.
/// Cost:     O(nodes).
/// Example:  %d = dequantize_per_tensor(%q, 0.5, 3, …); %v = aten::view_copy(%d, [4])
///             =>   %v_integers = aten::view_copy(%q, [4]); %v = dequantize_per_tensor(%v_integers, 0.5, 3, …)
class PropagateDequantize final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

/// Whether each element of the results is one of the first argument (a tensor, or a list of them), or the fill value.
bool only_moves_elements(const ir::Node& node);

}  // namespace et::passes
