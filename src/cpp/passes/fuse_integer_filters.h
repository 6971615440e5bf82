#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Gives convolutions of floats the integers of their constant filters, and those of inputs that are quantized at the
/// call.
///
/// Requires: Stage::kEdge, verified. An extension: the operator is ours.
/// Ensures:  a convolution (with its clamp) whose filter is dequantized, with one scale or one for each channel of the
///           output, is an et::weight_only_convolution. Filters whose integers all have 4 bits are stored two a byte
///           (numerics/nibbles.h). One of images whose input has one scale, chosen at the call, and whose filter has 8
///           bits and no zero points, is an et::dynamic_convolution, which multiplies integers.
/// Cost:     O(nodes + elements of such filters).
/// Example:  %f = …dequantize_per_channel(%w, %s, …); %y = aten::convolution(%x, %f, %b, …)
///           =>   %y = et::weight_only_convolution(%x, %w, %s, none, %b, …, none, none)
class FuseIntegerFilters final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
