#pragma once

#include "passes/spelled_out.h"

namespace et::passes {

/// Finds norms over the last dimension that are spelled out, and softmax, and makes one operator of each.
///
///   x * rsqrt(mean(x²) + eps) * weight                =>   rms_norm(x, weight, eps)
///   (x - mean(x)) / sqrt(var(x) + eps) * weight + b   =>   native_layer_norm(x, [n], weight, b, eps)
///   e / sum(e) with e = exp(x - max(x))               =>   _softmax(x, dim)
///
/// The variance may be var without correction or the mean of the squares of x - mean(x). Weight and bias are optional
/// vectors. A norm that is computed in float between casts from and to floats of 16 bits takes and gives these, and its
/// weight may stand before or behind the cast.
///
/// Requires: Stage::kEdge, verified. For a compatible file only what has a published operator is replaced.
/// Ensures:  no such expression of row-major floats whose intermediate results nobody else reads, without tags, with
///           eps inside of the root. Softmax over any dimension. Results may differ in their last bits; those of 16
///           bits are rounded once.
/// Cost:     O(nodes).
/// Example:  see golden/recognise_norms.ir
/// Source:   Ba et al., "Layer Normalization", 2016; Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
class RecogniseNorms final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

/// The norm or softmax whose result `node` makes. With `one_dtype` a layer
/// norm's parameters have its element type, as the published kernel demands.
std::optional<SpelledOut> spelled_out_norm(ir::Node& node, const ir::Program& program, bool one_dtype = false);

}  // namespace et::passes
