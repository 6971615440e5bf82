/// What passes share that look for the gates of a recurrent layer's step: the tensor that a step splits into its gates,
/// and the nodes that go when the step is one operator.
///
/// For: fuse-lstm-gates, fuse-gru-gates. Not for: rewriting in general, which is rewrite.h's.
///
///     StepNodes nodes;
///     GateSums sums{4};
///     take_gate(value, user, 2, sums, nodes);       // value is the third of the four parts that sums.split makes
///     if (fits_state(sums, state)) dequantized(sums, before), erase_step(nodes, fused);
#pragma once

#include "passes/quantized_values.h"

namespace et::passes {

/// Nodes whose results nobody outside of the step reads.
using StepNodes = std::vector<ir::Node*>;

/// Sums whose parts, side by side along the last dimension, are the gates of a step.
struct GateSums {
  size_t gates = 0;
  ir::Node* split = nullptr;
  ir::Node* dequantize = nullptr;  ///< of one part; nullptr where floats are split
};

/// Adds the node that made a value, if it has this name and stands in the graph of the users, which alone read the
/// value, each once; nullptr otherwise.
ir::Node* take(ir::Value* value, std::initializer_list<const ir::Node*> users, std::string_view op, StepNodes& nodes);

/// True when `value` is gate `index` of the sums, those that were found before if any were. Parts of integers are
/// dequantized with the same parameters.
bool take_gate(ir::Value* value, const ir::Node* user, size_t index, GateSums& sums, StepNodes& nodes);

/// Rows of floats, one for each row of the state; sizes of one in front may be missing.
bool fits_state(const GateSums& sums, const ir::TensorType& state);

/// The sums in float, dequantized in one piece before `before`.
ir::Value* dequantized(const GateSums& sums, const ir::Node& before);

/// Erases what nobody reads any more. `fused` takes the handles over.
void erase_step(StepNodes nodes, ir::Node* fused);

/// Tries both orders of the first two arguments; what a wrong order took is forgotten.
template <typename Match, typename Try>
bool either_order(const ir::Node& node, Match& match, const Try& attempt) {
  const Match before = match;
  for (size_t first = 0; first < 2; ++first) {
    if (attempt(node.args()[first].value(), node.args()[1 - first].value())) {
      return true;
    }
    match = before;
  }
  return false;
}

}  // namespace et::passes
