#include "delegation/leave_recurrent_steps.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/quantized_values.h"

namespace et::delegation {
namespace {

using passes::is_one_of;
using passes::kDequantizePerTensor;
using passes::kQuantizePerTensor;

bool is_conversion(const ir::Node& node) { return is_one_of(node.op, {kQuantizePerTensor, kDequantizePerTensor}); }
bool is_split(const ir::Node& node) { return is_one_of(node.op, {op::split_copy_Tensor, op::split_Tensor}); }

/// What gates are computed with.
bool is_of_gates(const ir::Node& node) {
  return is_conversion(node) || is_split(node) ||
         is_one_of(node.op, {op::add_Tensor, op::mul_Tensor, op::sub_Tensor, op::rsub_Scalar, op::sigmoid, op::tanh});
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

/// True for a linear layer whose weight has integers.
bool has_integer_weight(const ir::Value* product) {
  const ir::Node* const linear = product == nullptr ? nullptr : product->producer();
  return linear != nullptr && linear->op == op::linear &&
         passes::producer_if(ops::Linear(*linear).weight(), {kDequantizePerTensor, passes::kDequantizePerChannel,
                                                             passes::kDequantizePerGroup}) != nullptr;
}

/// What makes a value, behind conversions; nullptr for an input.
const ir::Node* maker_of(const ir::Value* value) {
  const ir::Node* node = value == nullptr ? nullptr : value->producer();
  while (node != nullptr && (is_conversion(*node) || passes::is_run_time_conversion(node->op))) {
    const ir::Value* const from = passes::Dequantize(*node).input().value();
    node = from == nullptr ? nullptr : from->producer();
  }
  return node;
}

/// True for the product of a state that is a product itself.
bool is_product_of_product(const ir::Value* value) {
  const ir::Node* const linear = maker_of(value);
  if (linear == nullptr || linear->op != op::linear) {
    return false;
  }
  const ir::Node* const state = maker_of(ops::Linear(*linear).input().value());
  return state != nullptr && state->op == op::linear;
}

/// The other one of two that are added.
const ir::Value* added_to(const ir::Value* value, const ir::Node& add) {
  return (ops::AddTensor(add).self().value() == value ? ops::AddTensor(add).other() : ops::AddTensor(add).self())
      .value();
}

/// How a step adds a part of the inputs' products to the product of its state.
enum class StepKind { kNone, kFloat, kInteger };

/// kInteger: as integers, or as floats where the state's weight has integers.
StepKind step_of(const ir::Value* part) {
  const ir::Node* reader = reader_of(part);
  if (reader == nullptr) {
    return StepKind::kNone;
  }
  const ir::Value* product = nullptr;
  bool is_step = false;
  if (reader->op == op::add_Tensor) {  // LSTM
    product = added_to(part, *reader);
    reader = reader_of(reader->result());
    is_step = reader != nullptr && is_split(*reader) && reader->results().size() == 4 &&
              goes_through(*reader, 0, {op::sigmoid, op::mul_Tensor}) &&
              goes_through(*reader, 1, {op::sigmoid, op::mul_Tensor}) &&
              goes_through(*reader, 2, {op::tanh, op::mul_Tensor}) &&
              goes_through(*reader, 3, {op::sigmoid, op::mul_Tensor});
  } else if (is_split(*reader) && reader->results().size() == 3) {  // GRU
    is_step = goes_through(*reader, 0, {op::add_Tensor, op::sigmoid}) &&
              goes_through(*reader, 1, {op::add_Tensor, op::sigmoid}) &&
              goes_through(*reader, 2, {op::add_Tensor, op::tanh});
    const ir::Value* const reset = reader->result(0);
    const ir::Value* const own = is_step ? added_to(reset, *reader_of(reset)) : nullptr;
    const ir::Node* const split = own == nullptr ? nullptr : own->producer();
    product = split != nullptr && is_split(*split) ? ops::SplitTensor(*split).self().value() : nullptr;
  }
  const bool is_static = part->users().front()->op == kQuantizePerTensor;
  return !is_step ? StepKind::kNone : is_static || has_integer_weight(product) ? StepKind::kInteger : StepKind::kFloat;
}

/// True for a part that is added to the product of a state that is a product itself.
bool is_beside_product_of_product(const ir::Value* part) {
  const ir::Node* const add = reader_of(part);
  return add != nullptr && add->op == op::add_Tensor &&
         (is_product_of_product(ops::AddTensor(*add).self().value()) ||
          is_product_of_product(ops::AddTensor(*add).other().value()));
}

/// True for the steps of a layer with a projection, which no operator has. In others the first state alone may be a
/// product.
bool are_projected(const std::vector<std::unique_ptr<ir::Value>>& parts) {
  const auto count = std::count_if(parts.begin(), parts.end(),
                                   [](const auto& part) { return is_beside_product_of_product(part.get()); });
  return static_cast<size_t>(count) + 1 >= parts.size();
}

/// True for parts that are added in one step each, to products of integers but for a first state that is a constant.
bool are_inputs_of_steps(const std::vector<std::unique_ptr<ir::Value>>& parts) {
  size_t floats = 0;
  for (const auto& part : parts) {
    const StepKind kind = step_of(part.get());
    if (kind == StepKind::kNone) {
      return false;
    }
    floats += kind == StepKind::kFloat ? 1 : 0;
  }
  return floats <= 1 && floats < parts.size();
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
        } else if (producer->op == op::linear) {
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
      } else if (user->op == op::cat) {
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

  /// A linear layer, or a conversion, and what makes its operands floats.
  void leave_product(ir::Node& node) {
    leave_node(node);
    node.for_each_input([&](const ir::Value* input) {
      ir::Node* const producer = input->producer();
      if (producer != nullptr && passes_floats(*producer)) {
        leave_product(*producer);
      }
    });
  }
  /// True for conversions; those at run time may have other readers, which stay with the backend.
  static bool passes_floats(const ir::Node& node) {
    return is_conversion(node) || is_one_of(node.op, {passes::kDequantizePerChannel, passes::kDequantizePerGroup}) ||
           (passes::is_run_time_conversion(node.op) &&
            std::all_of(node.results().begin(), node.results().end(), [](const auto& result) {
              return std::all_of(result->users().begin(), result->users().end(),
                                 [](const ir::Node* user) { return user->tag.empty(); });
            }));
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
    if (is_one_of(node->op, {op::unbind_copy_int, op::unbind_int}) && parts.size() > 1 && are_inputs_of_steps(parts) &&
        !are_projected(parts)) {
      for (const auto& part : parts) {
        steps.leave(part.get());
      }
    }
  }
}

}  // namespace et::delegation
