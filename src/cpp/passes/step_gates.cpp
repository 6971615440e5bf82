#include "passes/step_gates.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ops/names.h"

namespace et::passes {
namespace {

/// The node that dequantizes a gate; nullptr where floats are split.
const ir::Node* dequantize_of(const ir::Value* gate) {
  return gate->producer()->op == kDequantizePerTensor ? gate->producer() : nullptr;
}

const ir::Node& split_of(const ir::Value* gate) {
  const ir::Node* dequantize = dequantize_of(gate);
  return *(dequantize == nullptr ? gate : Dequantize(*dequantize).input().value())->producer();
}

}  // namespace

bool are_gates(const ir::Match& match, Gates gates, const ir::TensorType& state) {
  const ir::Node& split = split_of(match.value(*gates.begin()));
  const ir::TensorType& whole = ops::SplitTensor(split).self().value()->type.tensor;
  const ir::TensorType& part = split.result(0)->type.tensor;
  const size_t rank = whole.rank();
  if (rank == 0 || rank > state.rank() || split.results().size() != gates.size()) {
    return false;
  }
  const auto first = state.dims.end() - static_cast<std::ptrdiff_t>(rank);
  return state.dtype == ScalarType::Float && state.is_row_major() && whole.is_row_major() &&
         state.dims.back().is_static() && split.result(gates.size() - 1)->type.tensor == part &&
         std::equal(first, state.dims.end(), part.dims.begin()) &&
         std::all_of(state.dims.begin(), first, [](const ir::Dim& size) { return size == 1; }) &&
         std::all_of(gates.begin(), gates.end(), [&](std::string_view name) {
           // Functions take integers as well, whatever the other gates are made of.
           const ir::Value* gate = match.value(name);
           return &split_of(gate) == &split && gate->type.tensor.dtype == ScalarType::Float &&
                  (dequantize_of(gate) == nullptr || affine_of(*dequantize_of(gate)));
         });
}

ir::Value* gates_before(const ir::Match& match, Gates gates, const ir::Node& before) {
  const ir::Value* gate = match.value(*gates.begin());
  ir::Value* whole = ops::SplitTensor(split_of(gate)).self().value();
  const ir::Node* dequantize = dequantize_of(gate);
  if (dequantize == nullptr) {
    return whole;
  }
  std::vector<ir::Argument> args = dequantize->args();
  args[0] = {whole};
  ir::TensorType type = whole->type.tensor;
  type.dtype = ScalarType::Float;
  ir::Node* node = create_like(before, dequantize->op, std::move(args));
  return node->add_result(whole->name + "_gates", ir::Type::of(type));
}

}  // namespace et::passes
