/// Moves dequantization behind operators that only move elements, and quantization before them, so that integers are
/// moved and q/dq pairs meet.
#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Requires: Stage::kEdge, verified; an extension, because kernels of other runtimes may not take integers everywhere.
/// Ensures:  an operator of the table in the source whose input is dequantized with one scale (per tensor, untagged)
///           reads the integers instead, and its result is dequantized with the same parameters. Operators that give
///           more elements than they take do so only when every user quantizes, and those that put zeros beside them
///           only when 0 is the zero point. What joins elements of several tensors and numbers (cat, where, maximum,
///           constant padding) does so when all have the same parameters; zeros have any. It also does so when its only
///           user quantizes: then the others are quantized as that one would. Constant padding wants every user to
///           quantize. A product with a positive number that is not only quantized again gives its factor to the scale.
///           A permutation of a weight with a scale for each channel moves the axis. What is quantized behind
///           another shape or order of a computed tensor, which nobody else reads, is quantized before. Values are the
///           same bit for bit; those of a factor that is no power of two may differ in their last bits.
/// Cost:     O(nodes).
/// Example:  %d = dequantize_per_tensor(%q, 0.5, 3, …); %v = aten::view_copy(%d, [4])
///             =>   %v_integers = aten::view_copy(%q, [4]); %v = dequantize_per_tensor(%v_integers, 0.5, 3, …)
class PropagateDequantize final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

/// The arguments whose elements a node's results are made of: a tensor, a list of them, or a number. Empty where a node
/// computes.
std::vector<const ir::Argument*> elements_of(const ir::Node& node);
/// Whether elements of several tensors meet in a node.
bool joins_tensors(const ir::Node& node);

}  // namespace et::passes
