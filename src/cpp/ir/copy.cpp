#include "ir/copy.h"

#include <unordered_map>

namespace et::ir {
namespace {

using Copies = std::unordered_map<const Value*, Value*>;

Argument copied(const Argument& given, const Copies& copies) {
  Argument out = given;
  if (const Value* value = given.value()) {
    out.data = copies.at(value);
  } else if (const auto* list = given.as<Argument::List>()) {
    Argument::List items;
    for (const Argument& item : *list) {
      items.push_back(copied(item, copies));
    }
    out.data = std::move(items);
  }
  return out;
}

}  // namespace

std::unique_ptr<Graph> copy_graph(const Graph& graph) {
  auto out = std::make_unique<Graph>(graph.name);
  out->stage = graph.stage;
  Copies copies;
  for (const auto& input : graph.inputs()) {
    copies.emplace(input.get(), out->add_input(input->name, input->type));
  }
  for (const auto& node : graph.nodes()) {
    std::vector<Argument> args;
    for (const Argument& argument : node->args()) {
      args.push_back(copied(argument, copies));
    }
    Node* const own = out->create_node(node->op, std::move(args));
    own->symbol = node->symbol;
    own->source = node->source;
    own->debug_handle = node->debug_handle;
    own->merged_handles = node->merged_handles;
    own->tag = node->tag;
    for (const auto& result : node->results()) {
      copies.emplace(result.get(), own->add_result(result->name, result->type));
    }
  }
  for (const Output& output : graph.outputs) {
    out->outputs.push_back(copied(output, copies));
  }
  return out;
}

}  // namespace et::ir
