#include "passes/reuse_in_place.h"

#include "passes/memory_groups.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

bool fits(const ir::Value* argument, const ir::Value* result) {
  return argument != nullptr && argument->type.is_tensor() && argument->type.tensor == result->type.tensor;
}

/// Every argument of the node in the memory of `root` is one that its kernel may overwrite.
bool overwrites_only(const ir::Node& node, uint32_t overwritable, const ir::Value* root, const ir::Value* result) {
  bool only = true;
  for (size_t i = 0; i < node.args().size(); ++i) {
    if (const ir::Value* value = node.args()[i].value()) {
      only = only && (value->root() != root || ((overwritable >> i & 1u) != 0 && fits(value, result)));
    } else if (const auto* list = node.args()[i].as<ir::Argument::List>()) {
      for (const ir::Argument& item : *list) {
        only = only && (item.value() == nullptr || item.value()->root() != root);
      }
    }
  }
  return only;
}

/// The memory belongs to this graph alone: made by one of its nodes, and nobody outside sees it.
bool is_own_memory(const ir::Value* root, const ir::Graph& graph) {
  return root->graph() == &graph && !is_external(root) && root->producer()->regions.empty();
}

}  // namespace

PassInfo ReuseInPlace::info() const {
  return {"reuse-in-place", "Results take the memory of arguments that die", ir::Stage::kLowered, ir::Stage::kLowered};
}

Result<Changed> ReuseInPlace::run(ir::Graph& graph, PassContext& context) {
  Changed changed = Changed::kNo;
  MemoryGroups groups(graph);
  for (const auto& node : graph.nodes()) {
    if (node->results().size() != 1) {
      continue;
    }
    ir::Value* result = node->result();
    const uint32_t overwritable = overwritable_arguments(*node, result, context);
    if (overwritable == 0) {
      continue;
    }
    const bool caller_gives_memory =
        graph.is_output(result) && (!context.options.plan_outputs || graph.owner != nullptr);
    if (result->alias_of != nullptr || !result->type.is_tensor() || caller_gives_memory) {
      continue;
    }
    for (size_t i = 0; i < node->args().size(); ++i) {
      ir::Value* argument = node->args()[i].value();
      if ((overwritable >> i & 1u) == 0 || !fits(argument, result)) {
        continue;
      }
      ir::Value* root = argument->root();
      if (is_own_memory(root, graph) && !groups.is_returned(root) &&
          groups.last_use(root) <= groups.position(node.get()) && overwrites_only(*node, overwritable, root, result)) {
        groups.make_alias(result, argument);
        changed = Changed::kYes;
        break;
      }
    }
  }
  return changed;
}

}  // namespace et::passes
