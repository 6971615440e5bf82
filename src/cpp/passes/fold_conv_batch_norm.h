#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Folds a batch normalisation with fixed statistics into the convolution before it.
///
///   conv(x, w, b)[o] * s[o] + (beta[o] - mean[o] * s[o]),  s = gamma / sqrt(var + eps)
///     =  conv(x, w * s, (b - mean) * s + beta)
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  no _native_batch_norm_legit_no_training is the only use of a convolution (also a transposed one) with the
///           same tag, when weights and statistics are constants with data and the saved statistics are unused.
/// Cost:     O(nodes), and one pass over each weight. Computed in double precision, rounded once to the weight's dtype.
/// Example:  %c = aten::convolution(%x, @w, none, …); %y, %m, %r = aten::_native_batch_norm_legit_no_training(%c, …)
///           =>   %y = aten::convolution(%x, @w', @b', …)
/// Source:   the identity above; Jacob et al., "Quantization and Training of Neural Networks for Efficient
///           Integer-Arithmetic-Only Inference", 2018, section 3.2.
class FoldConvBatchNorm final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
