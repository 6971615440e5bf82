#include "delegation/outline_part.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/copy.h"

namespace et::delegation {
namespace {

/// Copies the nodes of a part.
class Outliner {
 public:
  Outliner(const std::vector<ir::Node*>& part, const std::string& name)
      : part_(part), members_(part.begin(), part.end()), outline_(std::make_unique<Outline>(name)) {}

  std::unique_ptr<Outline> run() {
    for (const ir::Node* node : part_) {
      copy(*node);
    }
    for (const ir::Node* node : part_) {
      for (const auto& result : node->results()) {
        if (is_used_outside(*result)) {
          outline_->outputs.push_back(result.get());
          outline_->graph.outputs.push_back(argument(copies_.at(result.get())));
        }
      }
    }
    return std::move(outline_);
  }

 private:
  static ir::Argument argument(ir::Value* value) {
    ir::Argument out;
    out.data = value;
    return out;
  }

  void copy(const ir::Node& node) {
    const ir::Node* own = ir::copy_node(outline_->graph, node, [this](ir::Value* value) { return inside(value); });
    for (size_t i = 0; i < node.results().size(); ++i) {
      copies_.emplace(node.results()[i].get(), own->results()[i].get());
    }
  }

  /// The value in the part that stands for one of the method: a copy, a constant, or a new input.
  ir::Value* inside(ir::Value* value) {
    if (const auto found = copies_.find(value); found != copies_.end()) {
      return found->second;
    }
    const ir::Node* producer = value->producer();
    ir::Value* own = nullptr;
    if (producer != nullptr && producer->op == "constant") {
      ir::Node* constant = outline_->graph.create_node("constant", {});
      constant->symbol = producer->symbol;
      own = constant->add_result(value->name, value->type);
    } else if (producer != nullptr && is_dequantized_constant(*producer)) {
      copy(*producer);  // an integer weight: each part that uses it gets it as it is
      return copies_.at(value);
    } else {
      own = outline_->graph.add_input(value->name, value->type);
      outline_->inputs.push_back(argument(value));
    }
    copies_.emplace(value, own);
    return own;
  }

  bool is_used_outside(const ir::Value& value) const {
    return value.graph()->is_output(&value) ||
           std::any_of(value.users().begin(), value.users().end(),
                       [&](const ir::Node* user) { return members_.count(user) == 0; });
  }

  const std::vector<ir::Node*>& part_;
  std::unordered_set<const ir::Node*> members_;
  std::unique_ptr<Outline> outline_;
  std::unordered_map<const ir::Value*, ir::Value*> copies_;
};

}  // namespace

bool is_dequantized_constant(const ir::Node& node) {
  bool constant = node.op.find("dequantize") != std::string::npos;
  node.for_each_input([&](const ir::Value* input) {
    constant = constant && input->producer() != nullptr && input->producer()->op == "constant";
  });
  return constant;
}

std::unique_ptr<Outline> outline_part(const std::vector<ir::Node*>& part, const std::string& name) {
  return Outliner(part, name).run();
}

}  // namespace et::delegation
