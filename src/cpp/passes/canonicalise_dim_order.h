#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Brings everything to row-major order, and says "order" where ATen says "memory format".
///
/// Edge has values, not memory, so a method means the same in whatever order its tensors lie; from here on order is a
/// choice of ours (propagate-dim-order makes it).
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  every result is row-major; an input in another order is converted once, at the start. `_to_copy`, `clone`
///           and `empty.memory_format` are dim_order_ops::{_to_dim_order_copy, _clone_dim_order, _empty_dim_order},
///           whose last argument is the order of the result.
/// Cost:     O(nodes).
/// Example:  aten::_to_copy(%x, 6, none, none, none, false, none) : f32[2, 3]
///           =>   dim_order_ops::_to_dim_order_copy(%x, 6, none, none, none, false, [0, 1]) : f32[2, 3]
class CanonicaliseDimOrder final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
