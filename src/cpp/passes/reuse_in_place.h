#pragma once

#include "passes/pass.h"

namespace et::passes {

/// An operator's result takes the memory of an argument that nobody reads any more.
///
/// Requires: Stage::kLowered, verified, after remove-views and insert-write-backs.
/// Ensures:  the result of a node whose kernel allows it (OpInfo::in_place) is an alias of its first fitting argument:
///           equal dtype, sizes and order, made in the same graph, last read here, not returned. All arguments in that
///           memory must be such that the kernel may overwrite them.
/// Cost:     O(nodes + uses).
/// Example:  %a = aten::relu.out(%c); (%c dies)   =>   %a = aten::relu.out(%c) : f32[8] alias(%c)
class ReuseInPlace final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
