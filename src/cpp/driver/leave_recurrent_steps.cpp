#include "driver/leave_recurrent_steps.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "passes/quantized_values.h"

namespace et::driver {
namespace {

using passes::is_one_of;
using passes::kDequantizePerTensor;
using passes::kQuantizePerTensor;

bool is_conversion(const ir::Node& node) { return is_one_of(node.op, {kQuantizePerTensor, kDequantizePerTensor}); }
bool is_split(const ir::Node& node) { return is_one_of(node.op, {"aten::split_copy.Tensor", "aten::split.Tensor"}); }

/// What gates are computed with.
bool is_of_gates(const ir::Node& node) {
  return is_conversion(node) || is_split(node) ||
         is_one_of(node.op, {"aten::add.Tensor", "aten::mul.Tensor", "aten::sub.Tensor", "aten::rsub.Scalar",
                             "aten::sigmoid", "aten::tanh"});
}

/// The node that alone reads a value, behind conversions; nullptr when there are more.
const ir::Node* reader_of(const ir::Value* value) {
  while (value->users().size() == 1) {
    const ir::Node* const user = value->users().front();
    if (!is_conversion(*user)) {
      return user;
    }
    value = user->result();
  }
  return nullptr;
}

/// True when part `index` of a split goes through these functions, one after the other.
bool goes_through(const ir::Node& split, size_t index, std::initializer_list<std::string_view> functions) {
  const ir::Value* value = split.result(index);
  for (const std::string_view function : functions) {
    const ir::Node* const reader = reader_of(value);
    if (reader == nullptr || reader->op != function) {
      return false;
    }
    value = reader->result();
  }
  return true;
}

/// True for a part of the inputs' products, as integers, that a step adds to the product of its state.
bool is_input_of_step(const ir::Value* part) {
  if (part->users().size() != 1 || part->users().front()->op != kQuantizePerTensor) {
    return false;
  }
  const ir::Node* reader = reader_of(part);
  if (reader != nullptr && reader->op == "aten::add.Tensor") {  // LSTM
    reader = reader_of(reader->result());
    return reader != nullptr && is_split(*reader) && reader->results().size() == 4 &&
           goes_through(*reader, 0, {"aten::sigmoid", "aten::mul.Tensor"}) &&
           goes_through(*reader, 1, {"aten::sigmoid", "aten::mul.Tensor"}) &&
           goes_through(*reader, 2, {"aten::tanh", "aten::mul.Tensor"}) &&
           goes_through(*reader, 3, {"aten::sigmoid", "aten::mul.Tensor"});
  }
  return reader != nullptr && is_split(*reader) && reader->results().size() == 3 &&  // GRU
         goes_through(*reader, 0, {"aten::add.Tensor", "aten::sigmoid"}) &&
         goes_through(*reader, 1, {"aten::add.Tensor", "aten::sigmoid"}) &&
         goes_through(*reader, 2, {"aten::add.Tensor", "aten::tanh"});
}

class Steps {
 public:
  Steps(ir::Graph& graph, const std::function<void(ir::Node&, std::string)>& refuse) : graph_(graph), refuse_(refuse) {}

  /// All that is computed from the part until the new state is put together with others, and what is computed with it.
  void leave(ir::Value* part) {
    follow(*part);
    while (!waiting_.empty()) {
      ir::Node* const node = waiting_.back();
      waiting_.pop_back();
      for (const auto& result : node->results()) {
        follow(*result);
      }
      node->for_each_input([&](const ir::Value* input) {
        ir::Node* const producer = input->producer();
        if (producer == nullptr || producer->graph() != &graph_) {
          return;
        }
        if (is_conversion(*producer) || is_split(*producer)) {
          visit(producer);
        } else if (producer->op == "aten::linear") {
          leave_product(*producer);
        }
      });
    }
  }

 private:
  void follow(const ir::Value& value) {
    for (ir::Node* const user : value.users()) {
      if (user->graph() == &graph_ && is_of_gates(*user)) {
        visit(user);
      } else if (user->op == "aten::cat") {
        leave_node(*user);
      }
    }
  }

  void visit(ir::Node* node) {
    if (visited_.insert(node).second) {
      leave_node(*node);
      waiting_.push_back(node);
    }
  }

  /// A linear layer and what makes its operands floats.
  void leave_product(ir::Node& linear) {
    leave_node(linear);
    linear.for_each_input([&](const ir::Value* input) {
      for (ir::Node* node = input->producer(); node != nullptr && passes_floats(*node);
           node = node->args()[0].value()->producer()) {
        leave_node(*node);
      }
    });
  }
  static bool passes_floats(const ir::Node& node) {
    return is_conversion(node) || is_one_of(node.op, {passes::kDequantizePerChannel, passes::kDequantizePerGroup});
  }

  void leave_node(ir::Node& node) {
    if (!node.tag.empty()) {
      refuse_(node, "it is part of a recurrent layer's step; the steps run as one operator");
    }
  }

  ir::Graph& graph_;
  const std::function<void(ir::Node&, std::string)>& refuse_;
  std::unordered_set<const ir::Node*> visited_;
  std::vector<ir::Node*> waiting_;
};

}  // namespace

void leave_recurrent_steps(ir::Graph& graph, const std::function<void(ir::Node&, std::string)>& refuse) {
  Steps steps(graph, refuse);
  for (const auto& node : graph.nodes()) {
    const auto& parts = node->results();
    if (is_one_of(node->op, {"aten::unbind_copy.int", "aten::unbind.int"}) && parts.size() > 1 &&
        std::all_of(parts.begin(), parts.end(), [](const auto& part) { return is_input_of_step(part.get()); })) {
      for (const auto& part : parts) {
        steps.leave(part.get());
      }
    }
  }
}

}  // namespace et::driver
