#pragma once

#include <vector>

#include "passes/pass.h"

namespace et::passes {

/// Gives every node the name and the arguments of the kernel that a program calls.
///
/// The functional operator `aten::add.Tensor(self, other, alpha)` is run by `aten::add.out(self, other, alpha, out)`.
/// The outs are the node's results, so arguments and results together are the kernel's. Arguments are matched by name;
/// what the kernel does not take (dtype, layout, device: the out tensor says it) is dropped, what only it takes gets
/// the default of its schema.
///
/// Requires: Stage::kEdge, verified, no numbers in place of tensors (lift-scalars), nothing tagged.
/// Ensures:  Stage::kLowered; each operator is one that a kernel exists for (one that the official runtime has, when
///           the file is to be compatible), a primitive one, or one of PassContext::custom_ops.
/// Errors:   OperatorMissing  otherwise; one diagnostic an operator, with line and choices.
/// Cost:     O(nodes).
/// Example:  aten::arange(10, none, none, none, none)   =>   aten::arange.out(10)
class ToOutVariants final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

/// The kernel's arguments, without its outs, from those of the functional operator. Also for those who run single
/// kernels.
std::vector<ir::Argument> kernel_arguments(const ops::OpInfo& op, const ir::Node& node);

}  // namespace et::passes
