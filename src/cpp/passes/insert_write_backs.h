#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Makes the method change its buffers and inputs.
///
/// Up to here a change of state is an entry of Graph::writes: "at the end, buffer @b is %v". Now a node does it:
///  - the node that makes %v writes it into the buffer at once, when nothing reads the buffer's old content afterwards,
///    and the node itself reads it only where its kernel may overwrite (OpInfo::in_place): a KV cache is never copied.
///    index_put becomes index_put_ then;
///  - otherwise aten::copy_(buffer, %v) at the end.
/// What the method returns, or writes elsewhere, of the old content is cloned before it goes.
///
/// Requires: Stage::kLowered, verified, after remove-views.
/// Ensures:  each write's value is the target itself or an alias of it, made by a node.
/// Cost:     O(nodes + writes).
/// Example:  %n = aten::add.out(%b, %x, 1); return, writes {buffer @b = %n}
///           =>   %n = aten::add.out(%b, %x, 1) : f32[2] alias(%b)
class InsertWriteBacks final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& method, PassContext& context) override;
};

}  // namespace et::passes
