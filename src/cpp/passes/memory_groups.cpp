#include "passes/memory_groups.h"

#include <algorithm>

namespace et::passes {

bool may_share_memory(const ir::Value* value, const std::vector<ir::Value*>& roots) {
  const ir::Value* root = value->root();
  if (std::find(roots.begin(), roots.end(), root) != roots.end()) {
    return true;
  }
  bool found = false;
  if (root->producer() != nullptr && !root->producer()->regions.empty()) {
    root->producer()->for_each_input(
        [&](const ir::Value* operand) { found = found || may_share_memory(operand, roots); });
    for (const auto& region : root->producer()->regions) {
      for (const ir::Output& output : region->outputs) {
        found = found || (output.value() != nullptr && may_share_memory(output.value(), roots));
      }
    }
  }
  return found;
}

MemoryGroups::MemoryGroups(const ir::Graph& graph) : graph_(graph) {
  size_t position = 0;
  for (const auto& node : graph.nodes()) {
    positions_.emplace(node.get(), ++position);
  }
  for (const auto& input : graph.inputs()) {
    add(input.get());
  }
  for (const auto& node : graph.nodes()) {
    node->for_each_input([this](const ir::Value* value) { add(value); });  // values of graphs around this one
    for (const auto& result : node->results()) {
      add(result.get());
    }
  }
}

void MemoryGroups::add(const ir::Value* value) {
  Group& group = groups_[value->root()];
  for (const ir::Node* user : value->users()) {
    group.last_use = std::max(group.last_use, position(user));
    // A branch may return its operand, and then the result of control flow is in this memory.
    group.is_returned = group.is_returned || !user->regions.empty();
  }
  group.is_returned = group.is_returned || graph_.is_output(value);
}

size_t MemoryGroups::position(const ir::Node* node) const {
  while (node != nullptr && node->graph() != &graph_) {
    node = node->graph()->owner;
  }
  const auto found = positions_.find(node);
  return found == positions_.end() ? positions_.size() + 1 : found->second;  // outside: after everything
}

size_t MemoryGroups::last_use(const ir::Value* value) const {
  const auto found = groups_.find(value->root());
  return found == groups_.end() ? 0 : found->second.last_use;
}

bool MemoryGroups::is_returned(const ir::Value* value) const {
  const auto found = groups_.find(value->root());
  return found != groups_.end() && found->second.is_returned;
}

void MemoryGroups::make_alias(ir::Value* value, ir::Value* target) {
  const Group joined = groups_[value->root()];
  value->alias_of = target;
  Group& group = groups_[target->root()];
  group.last_use = std::max(group.last_use, joined.last_use);
  group.is_returned = group.is_returned || joined.is_returned;
}

}  // namespace et::passes
