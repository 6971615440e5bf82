/// What passes share that find a function which a model wrote out operator by operator, and put one operator in its
/// place.
///
/// For: recognise-activations, recognise-norms, and the driver, which keeps such nodes out of a delegate that takes
///      only some of them. Not for: patterns with several results.
///
///     std::optional<SpelledOut> found = spelled_out_activation(*node, program);
///     if (found && may_replace(*found, context)) replace(*found);
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "passes/pass.h"

namespace et::passes {

/// Nodes that compute one function, and the operator that computes it in one pass over the data.
struct SpelledOut {
  ir::Node* root = nullptr;      ///< what it makes is the result
  std::vector<ir::Node*> nodes;  ///< all of them, the root too, each once
  std::string_view op;           ///< "aten::gelu"
  std::vector<ir::Argument> args;
  std::vector<ir::Type> unused;  ///< types of results that the operator has beyond the root's, which nobody reads

  void add(ir::Node* node);
  bool has(const ir::Node* node) const;
};

/// Nobody outside reads what is computed on the way, nor does the operator, and all stand in one graph.
bool is_closed(const SpelledOut& found);

/// True when nothing is tagged, the operator may be in the file, and the nodes are closed.
bool may_replace(const SpelledOut& found, const PassContext& context);

/// Puts the operator where the root is; it takes all handles over. The nodes are erased.
void replace(const SpelledOut& found);

/// Calls find(node) -> optional<SpelledOut> for each node of the graph, from the last to the first, so that the longest
/// comes first of several that have their beginning in common. Replaces what may be replaced.
template <typename Find>
Changed replace_each(ir::Graph& graph, const PassContext& context, const Find& find);

/// The node that alone reads the value (maybe twice); nullptr when there are more, or it is an output.
ir::Node* only_user(const ir::Value* value);

/// The type of a node's first result; nullptr when it is no tensor.
const ir::TensorType* type_of(const ir::Node& node);

template <typename Find>
Changed replace_each(ir::Graph& graph, const PassContext& context, const Find& find) {
  std::vector<ir::Node*> nodes;  // what is found goes before and behind the node that it is found by
  for (const auto& node : graph.nodes()) {
    nodes.push_back(node.get());
  }
  std::unordered_set<const ir::Node*> replaced;
  Changed changed = Changed::kNo;
  std::reverse(nodes.begin(), nodes.end());
  for (ir::Node* const node : nodes) {
    const std::optional<SpelledOut> found = replaced.count(node) != 0 ? std::nullopt : find(*node);
    if (!found || !may_replace(*found, context)) {
      continue;
    }
    replaced.insert(found->nodes.begin(), found->nodes.end());
    replace(*found);
    changed = Changed::kYes;
  }
  return changed;
}

}  // namespace et::passes
