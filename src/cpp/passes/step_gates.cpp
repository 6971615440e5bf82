#include "passes/step_gates.h"

#include <algorithm>

#include "ops/names.h"

namespace et::passes {

ir::Node* take(ir::Value* value, std::initializer_list<const ir::Node*> users, std::string_view op, StepNodes& nodes) {
  ir::Node* node = value == nullptr ? nullptr : value->producer();
  if (node == nullptr || node->op != op || !node->tag.empty() || node->graph() != (*users.begin())->graph() ||
      value->users().size() != users.size() ||
      !std::is_permutation(users.begin(), users.end(), value->users().begin()) || node->graph()->is_output(value)) {
    return nullptr;
  }
  nodes.push_back(node);
  return node;
}

bool take_gate(ir::Value* value, const ir::Node* user, size_t index, GateSums& sums, StepNodes& nodes) {
  if (value == nullptr || value->type.tensor.dtype != ScalarType::Float) {
    return false;  // functions take integers as well, whatever the other gates are made of
  }
  ir::Node* const dequantize = take(value, {user}, kDequantizePerTensor, nodes);
  if (sums.split != nullptr && (dequantize == nullptr) != (sums.dequantize == nullptr)) {
    return false;
  }
  if (dequantize != nullptr) {
    const std::optional<Activation> part = affine_of(*dequantize);
    const std::optional<Activation> other = sums.dequantize == nullptr ? part : affine_of(*sums.dequantize);
    if (!part || !other || !part->same_parameters(*other)) {
      return false;
    }
    sums.dequantize = dequantize;
    user = dequantize;
    value = dequantize->args()[0].value();
  }
  ir::Node* split = value->producer();
  if (split == nullptr || !is_one_of(split->op, {op::split_copy_Tensor, op::split_Tensor}) || !split->tag.empty() ||
      split->results().size() != sums.gates || split->graph() != user->graph() || split->result(index) != value ||
      !is_only_use(value, user)) {
    return false;
  }
  if (sums.split == nullptr) {
    sums.split = split;
    nodes.push_back(split);
  }
  return sums.split == split;
}

bool fits_state(const GateSums& sums, const ir::TensorType& state) {
  const ir::TensorType& whole = sums.split->args()[0].value()->type.tensor;
  const ir::TensorType& part = sums.split->result(0)->type.tensor;
  const auto dim = int_of(sums.split->args()[2]);
  const auto rank = static_cast<int64_t>(whole.rank());
  if (!dim || rank == 0 || (*dim != -1 && *dim != rank - 1) || whole.rank() > state.rank()) {
    return false;
  }
  const auto first = state.dims.end() - rank;
  return state.dtype == ScalarType::Float && state.is_row_major() && whole.is_row_major() &&
         state.dims.back().is_static() && sums.split->result(sums.gates - 1)->type.tensor == part &&
         std::equal(first, state.dims.end(), part.dims.begin()) &&
         std::all_of(state.dims.begin(), first, [](const ir::Dim& size) { return size == 1; }) &&
         (sums.dequantize != nullptr || whole.dtype == ScalarType::Float);
}

ir::Value* dequantized(const GateSums& sums, const ir::Node& before) {
  ir::Value* whole = sums.split->args()[0].value();
  if (sums.dequantize == nullptr) {
    return whole;
  }
  std::vector<ir::Argument> args = sums.dequantize->args();
  args[0] = {whole};
  ir::TensorType type = whole->type.tensor;
  type.dtype = ScalarType::Float;
  ir::Node* node = create_like(before, sums.dequantize->op, std::move(args));
  return node->add_result(whole->name + "_gates", ir::Type::of(type));
}

void erase_step(StepNodes nodes, ir::Node* fused) {
  ir::Graph& graph = *fused->graph();
  const auto is_read = [&](const ir::Node* node) {
    return !std::all_of(node->results().begin(), node->results().end(),
                        [&](const auto& result) { return graph.is_unused(result.get()); });
  };
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (ir::Node*& node : nodes) {
      if (node != nullptr && !is_read(node)) {
        fused->absorb(*node);
        graph.erase(node);
        node = nullptr;
        is_done = false;
      }
    }
  }
}

}  // namespace et::passes
