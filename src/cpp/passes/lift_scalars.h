#pragma once

#include "passes/pass.h"

namespace et::passes {

/// The constant without dims that a literal number of `node` stands for where the schema has a tensor; its dtype
/// promotes as the number does: i64, bool, f32, or f64 beside f64.
ir::Constant constant_of_number(const ir::Argument& number, const ir::Node& node);

/// Puts numbers that stand for tensors into a form that kernels take.
///
/// In ATen `add.Tensor(x, 2.5)` is legal: the number counts as a tensor without dims that does not take part in the
/// promotion of dtypes. A kernel `add.out` takes a tensor, so the node becomes the operator's overload for a scalar
/// (`add.Scalar`), which needs no constant; where there is none, the number becomes constant_of_number. A number that
/// is known at run time only (a size, item()) becomes such a tensor by aten::scalar_tensor.
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  no number stands where the schema has a tensor.
/// Cost:     O(nodes).
/// Example:  aten::mul.Tensor(%x, 0.5)   =>   aten::mul.Scalar(%x, 0.5)
class LiftScalars final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
