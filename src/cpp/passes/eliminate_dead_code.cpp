#include "passes/eliminate_dead_code.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace et::passes {
namespace {

bool only_computes(const ir::Node& node) {
  if (!node.regions.empty()) {
    // A loop may not end; whether it does is not ours to change.
    return node.op != "while_loop" && std::all_of(node.regions.begin(), node.regions.end(), [](const auto& region) {
             return std::all_of(region->nodes().begin(), region->nodes().end(),
                                [](const auto& inner) { return only_computes(*inner); });
           });
  }
  if (is_one_of(node.op, {"constant", "buffer", "delegate"})) {
    return true;
  }
  if (ops::is_primitive(node.op)) {
    return !node.results().empty();  // arithmetic on numbers; a check has no result
  }
  const ops::OpInfo* op = ops::find_op(node.op);
  return op != nullptr && !op->has_tag(ops::kMutates);
}

}  // namespace

PassInfo EliminateDeadCode::info() const { return {"eliminate-dead-code", "Removes nodes whose results nobody uses"}; }

Result<Changed> EliminateDeadCode::run(ir::Graph& graph, PassContext&) {
  Changed changed = Changed::kNo;
  ir::Node* previous = nullptr;
  for (ir::Node* node = graph.nodes().empty() ? nullptr : graph.nodes().back().get(); node != nullptr;
       node = previous) {
    previous = graph.previous(node);
    const bool unused = std::all_of(node->results().begin(), node->results().end(),
                                    [&](const auto& result) { return graph.is_unused(result.get()); });
    if (unused && only_computes(*node)) {
      graph.erase(node);
      changed = Changed::kYes;
    }
  }
  return changed;
}

}  // namespace et::passes
