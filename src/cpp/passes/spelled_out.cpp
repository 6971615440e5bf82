#include "passes/spelled_out.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace et::passes {

void SpelledOut::add(ir::Node* node) {
  if (!has(node)) {
    nodes.push_back(node);
  }
}

bool SpelledOut::has(const ir::Node* node) const { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); }

bool is_closed(const SpelledOut& found) {
  const ir::Graph* graph = found.root->graph();
  const bool takes_its_own = std::any_of(found.args.begin(), found.args.end(), [&](const ir::Argument& argument) {
    return argument.value() != nullptr && found.has(argument.value()->producer());
  });
  return !takes_its_own && std::all_of(found.nodes.begin(), found.nodes.end(), [&](const ir::Node* node) {
    return node->graph() == graph &&
           (node == found.root || std::all_of(node->results().begin(), node->results().end(), [&](const auto& result) {
              const auto& users = result->users();
              return !graph->is_output(result.get()) &&
                     std::all_of(users.begin(), users.end(), [&](const ir::Node* user) { return found.has(user); });
            }));
  });
}

bool may_replace(const SpelledOut& found, const PassContext& context) {
  const ops::OpInfo* op = ops::find_op(found.op);
  return op != nullptr && (op->is_published || !context.options.compatible) && is_closed(found) &&
         std::all_of(found.nodes.begin(), found.nodes.end(), [](const ir::Node* node) { return node->tag.empty(); });
}

void replace(const SpelledOut& found) {
  ir::Graph& graph = *found.root->graph();
  ir::Node* created = create_like(*found.root, found.op, found.args);
  ir::Value* result = created->add_result(found.root->result()->name, found.root->result()->type);
  for (const ir::Type& type : found.unused) {
    created->add_result(result->name + "_unused", type);
  }
  graph.replace_all_uses(found.root->result(), result);
  std::swap(found.root->result()->name, result->name);
  created->absorb(*found.root);
  erase_unread(found.nodes, created);
}

ir::Node* only_user(const ir::Value* value) {
  const auto& users = value->users();
  const bool is_one = !users.empty() && !value->graph()->is_output(value) &&
                      std::all_of(users.begin(), users.end(), [&](const ir::Node* user) { return user == users[0]; });
  return is_one && users[0]->graph() == value->graph() ? users[0] : nullptr;
}

const ir::TensorType* type_of(const ir::Node& node) {
  return !node.results().empty() && node.result()->type.is_tensor() ? &node.result()->type.tensor : nullptr;
}

}  // namespace et::passes
