#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Stores constant weights that are mostly zero as a bit for each element and the elements that are not zero.
///
/// Requires: Stage::kEdge, verified. An extension. Does nothing when PassOptions::sparse_weights is above 1.
/// Ensures:  linear layers and convolutions are et::sparse_linear and et::sparse_convolution where their weight is a
///           large float32 constant with at least that part of its elements zero. They take two constants
///           (numerics/sparse_weight.h) that the nodes of the weight share. A weight stays dense when something else in
///           the method uses it too, because the file would hold it twice. It also stays dense when it goes to a .ptd
///           file under its own name, or when the convolution is transposed. A zero of either sign counts as zero.
/// Cost:     O(nodes) and a look at each element of each weight.
/// Source:   docs/how-to/pruning.md, "Sparse weights", has what was measured.
/// Example:  %y = et::linear_clamp(%x, %w, %b, 0, none)
///           =>   %y = et::sparse_linear(%x, %w_values, %w_mask, %b, [256, 128], 0, none)
class CompressSparseWeights final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
