#pragma once

#include "passes/spelled_out.h"

namespace et::passes {

/// Finds activations that are spelled out, and makes one operator of each.
///
///   0.5 * x * (1 + tanh(√(2/π) * (x + 0.044715 * x³)))   =>   gelu(x, "tanh")
///   x * 0.5 * (1 + erf(x / √2))                          =>   gelu(x, "none")
///   x * sigmoid(x)                                       =>   silu(x)
///   x * sigmoid(1.702 * x), the quick GELU               =>   swish(x, 1.702), with any number but in doubles
///   x * tanh(log(1 + exp(x)))                            =>   mish(x)
///   x * clamp(x + 3, 0, 6) / 6                           =>   hardswish(x); without the factor x hardsigmoid(x)
///
/// What stands around the inner function, and in its argument, is compared as a polynomial of x and of that function.
/// So the order of factors and terms does not matter, nor how a power is written.
///
/// Requires: Stage::kEdge, verified. For a compatible file only what has a published operator is replaced.
/// Ensures:  no such expression of floats is left whose intermediate results have no other reader. All its values are
///           of one type and without tags, and its numbers are those of the operator in its element type (in float for
///           16 bits). Results may differ in their last bits; those of 16 bits are rounded once instead of after each
///           step.
/// Cost:     O(nodes).
/// Example:  %s = aten::sigmoid(%x); %y = aten::mul.Tensor(%x, %s)   =>   %y = aten::silu(%x)
/// Source:   Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016; Misra, "Mish", 2019; Howard et al.,
///           "MobileNetV3", 2019.
class RecogniseActivations final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

/// The activation whose inner function (tanh, erf, sigmoid, a clamp) is `node`.
std::optional<SpelledOut> spelled_out_activation(ir::Node& node, const ir::Program& program);

}  // namespace et::passes
