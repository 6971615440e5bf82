// A product of integers is cut out together with what says how its input became integers.
//
// A part takes the last of several places it could have, and the dequantize in front of it may stand in an earlier one:
// then floats would cross the border, and the part would hold a product of floats and integers that no backend has.
// Each part gets such nodes for itself; what crosses is the integers, or the floats before they are quantized at run
// time.
#include <string_view>
#include <unordered_map>

#include "delegation/outline_delegates.h"
#include "passes/quantized_values.h"

namespace et::delegation {
namespace {

using Parts = std::vector<std::vector<ir::Node*>>;

/// Whether a node only says how numbers stand for others: a dequantize, and all of a quantization at run time.
bool is_conversion(std::string_view op) {
  return ops::has_tag(op, ops::kDequantizes) || passes::is_run_time_conversion(op);
}

class OwnConversions {
 public:
  OwnConversions(ir::Graph& graph, Parts& parts) : graph_(graph), parts_(parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      for (const ir::Node* node : parts[i]) {
        part_of_.emplace(node, i);
      }
    }
  }

  void run() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      std::vector<ir::Node*> members;
      copies_.clear();
      for (ir::Node* node : parts_[i]) {
        set_inputs(node, i, node, members);
        members.push_back(node);
      }
      parts_[i] = std::move(members);
    }
  }

 private:
  /// Lets `node` of part `i` read copies that stand before `before`; they become members.
  void set_inputs(ir::Node* node, size_t i, ir::Node* before, std::vector<ir::Node*>& members) {
    std::vector<ir::Argument> args = node->args();
    bool changed = false;
    for (ir::Argument& argument : args) {
      ir::Value* const value = argument.value();
      if (value != nullptr && stands_elsewhere(*value, node->tag, i)) {
        argument.data = copied(value, i, before, members);
        changed = true;
      }
    }
    if (changed) {
      node->set_args(std::move(args));
    }
  }

  bool stands_elsewhere(const ir::Value& value, const std::string& tag, size_t i) const {
    const ir::Node* producer = value.producer();
    const auto found = producer == nullptr ? part_of_.end() : part_of_.find(producer);
    return found != part_of_.end() && found->second != i && producer->tag == tag && is_conversion(producer->op);
  }

  ir::Value* copied(ir::Value* value, size_t i, ir::Node* before, std::vector<ir::Node*>& members) {
    if (const auto found = copies_.find(value); found != copies_.end()) {
      return found->second;
    }
    const ir::Node& original = *value->producer();
    ir::Node* const copy = graph_.create_node(original.op, original.args(), before);
    passes::serve(copy, original);
    copy->tag = original.tag;
    set_inputs(copy, i, copy, members);
    for (const auto& result : original.results()) {
      copies_.emplace(result.get(), copy->add_result(result->name, result->type));
    }
    part_of_.emplace(copy, i);
    members.push_back(copy);
    return copies_.at(value);
  }

  ir::Graph& graph_;
  Parts& parts_;
  std::unordered_map<const ir::Node*, size_t> part_of_;
  std::unordered_map<const ir::Value*, ir::Value*> copies_;  // in the part at hand
};

}  // namespace

void own_conversions(ir::Graph& graph, Parts& parts) { OwnConversions(graph, parts).run(); }

}  // namespace et::delegation
