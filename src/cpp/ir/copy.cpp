#include "ir/copy.h"

#include <unordered_map>

namespace et::ir {
namespace {

Argument copied(const Argument& given, const std::function<Value*(Value*)>& copy_of) {
  Argument out = given;
  if (Value* const value = given.value()) {
    out.data = copy_of(value);
  } else if (const auto* list = given.as<Argument::List>()) {
    Argument::List items;
    for (const Argument& item : *list) {
      items.push_back(copied(item, copy_of));
    }
    out.data = std::move(items);
  }
  return out;
}

}  // namespace

Node* copy_node(Graph& to, const Node& node, const std::function<Value*(Value*)>& copy_of) {
  std::vector<Argument> args;
  for (const Argument& argument : node.args()) {
    args.push_back(copied(argument, copy_of));
  }
  Node* const own = to.create_node(node.op, std::move(args));
  own->symbol = node.symbol;
  own->source = node.source;
  own->debug_handle = node.debug_handle;
  own->merged_handles = node.merged_handles;
  for (const auto& result : node.results()) {
    own->add_result(result->name, result->type);
  }
  return own;
}

std::unique_ptr<Graph> copy_graph(const Graph& graph) {
  auto out = std::make_unique<Graph>(graph.name);
  out->stage = graph.stage;
  std::unordered_map<const Value*, Value*> copies;
  const auto copy_of = [&](Value* value) { return copies.at(value); };
  for (const auto& input : graph.inputs()) {
    copies.emplace(input.get(), out->add_input(input->name, input->type));
  }
  for (const auto& node : graph.nodes()) {
    Node* const own = copy_node(*out, *node, copy_of);
    own->tag = node->tag;
    for (size_t i = 0; i < node->results().size(); ++i) {
      copies.emplace(node->results()[i].get(), own->results()[i].get());
    }
  }
  for (const Output& output : graph.outputs) {
    out->outputs.push_back(copied(output, copy_of));
  }
  return out;
}

}  // namespace et::ir
