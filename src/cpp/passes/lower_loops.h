#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Arguments of the node "scan": lists of the first states and of what is walked.
enum ScanArgument : size_t { kInitial, kScanned };

/// Brings loops into the one form that instructions can say (ir/schedule.h): while_loop over memory of its own.
///
///  - map(x…) {body} and scan([initial…], [x…]) {body} become while_loop(0, initial…, results…) with a counter. Turn i
///    takes item i of each x (aten::select_copy.int_out) and puts its results at i
///    (executorch_prim::et_copy_index.tensor).
///  - A loop changes the memory of the tensors that it carries, so those are copies that nobody else sees. At the end
///    of each turn the new content is copied there; content that another carried value still needs is kept before.
///
/// Requires: Stage::kLowered, verified.
/// Ensures:  no map, no scan; a while_loop carries literals, numbers and tensors of its own; each tensor that its body
///           returns is the carried one or an alias of it.
/// Errors:   NotSupported  a result of map or scan has a size that does not follow from those known before it.
/// Cost:     O(nodes of loops).
class LowerLoops final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
