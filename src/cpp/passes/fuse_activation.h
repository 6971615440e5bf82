#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Lets convolutions and products clamp their results themselves.
///
/// Requires: Stage::kEdge, verified. An extension: the fused operators are ours.
/// Ensures:  relu, relu6, hardtanh and clamp by numbers are part of the floating-point convolution, linear or addmm
///           whose only use they were, with equal tags: et::convolution_clamp, et::linear_clamp, et::addmm_clamp.
/// Cost:     O(nodes).
/// Example:  %c = aten::linear(%x, %w, %b); %y = aten::relu(%c)   =>   %y = et::linear_clamp(%x, %w, %b, 0, none)
class FuseActivation final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
