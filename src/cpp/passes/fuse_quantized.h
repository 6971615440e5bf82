/// Makes operators on integers of operators on floats between dequantize and quantize.
#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Requires: Stage::kEdge, verified; an extension: the operators are ours (et::quantized_*).
/// Ensures:  a node of the table in the source becomes one integer operator under these conditions. Its activations are
///           dequantized with one scale each (8 or 16 bits), its weight is a dequantized constant without zero points,
///           and its bias is constant. Its result goes through clamps by numbers, or nothing, to one
///           quantize_per_tensor. The clamps become the operator's range, the bias int32. A chain of pointwise
///           operators of one tensor between dequantize and quantize of 8-bit integers is a table of 256 entries,
///           computed with the portable kernels; so is a change of scale. linear with an integer weight and an input
///           that is quantized at run time is et::dynamic_linear, with another input et::weight_only_linear, an
///           embedding of an integer weight et::quantized_embedding. Weights that fit 4 bits are packed two a byte
///           there. What is tagged, or does not fit, stays as it is and runs with the published operators.
/// Cost:     O(nodes), and reading the weights.
/// Example:  %y = aten::linear(dequantize(%x, …), dequantize(%w, …), %b); %q = quantize_per_tensor(%y, …)
///             =>   %q = et::quantized_linear(%x, …, %w, %scales, %b_integers, …)
class FuseQuantized final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
