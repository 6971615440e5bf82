#include "passes/quantize_borders.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ops/names.h"
#include "passes/quantized_values.h"

namespace et::passes {
namespace {

void describe(ir::Program& program, const ir::Graph& graph, const char* side, size_t index,
              const Activation& activation) {
  program.constant_methods.push_back(
      {graph.name + "." + side + "." + std::to_string(index),
       {{activation.scale}, {activation.zero_point}, {activation.quant_min}, {activation.quant_max}}});
}

bool is_written(const ir::Graph& graph, size_t input) {
  return std::any_of(graph.writes.begin(), graph.writes.end(), [&](const ir::Write& write) {
    return write.target == ir::Write::Target::kInput && write.input_index == input;
  });
}

/// Whether a node asks for a size of its argument only, which is the same for integers.
bool reads_size(const ir::Node& node) { return node.op == op::sym_size_int; }

/// How all users that read elements quantize the value; nothing when one does something else.
std::optional<Activation> common_quantization(const ir::Value& value) {
  std::optional<Activation> found;
  for (const ir::Node* user : value.users()) {
    if (reads_size(*user)) {
      continue;
    }
    const std::optional<Activation> own = user->op == kQuantizePerTensor ? affine_of(*user) : std::nullopt;
    if (!own || (found && !found->same_parameters(*own))) {
      return std::nullopt;
    }
    found = own;
  }
  return found;
}

bool take_integers(ir::Graph& graph, ir::Program& program, size_t index) {
  ir::Value& input = *graph.inputs()[index];
  if (!input.type.is_tensor() || input.type.tensor.dtype != ScalarType::Float || graph.is_output(&input) ||
      is_written(graph, index)) {
    return false;
  }
  const std::optional<Activation> activation = common_quantization(input);
  const std::vector<ir::Node*> users = input.users();
  const bool returned = std::any_of(users.begin(), users.end(), [&](const ir::Node* user) {
    return !reads_size(*user) && (user->graph() != &graph || graph.is_output(user->result()));
  });
  if (!activation || returned) {
    return false;
  }
  input.type.tensor.dtype = activation->dtype;
  for (ir::Node* user : users) {
    if (reads_size(*user)) {
      continue;
    }
    graph.replace_all_uses(user->result(), &input);
    graph.erase(user);
  }
  describe(program, graph, "input", index, *activation);
  return true;
}

bool give_integers(ir::Graph& graph, ir::Program& program, size_t index) {
  const ir::Node* node = producer_if(graph.outputs[index], {kDequantizePerTensor});
  const std::optional<Activation> activation = node == nullptr ? std::nullopt : affine_of(*node);
  if (!activation || is_external(activation->integers) || graph.is_output(activation->integers) ||
      node->graph() != &graph) {
    return false;
  }
  const ir::Value* floats = node->result();
  graph.outputs[index] = {activation->integers};
  if (graph.is_unused(floats)) {
    graph.erase(const_cast<ir::Node*>(node));
  }
  describe(program, graph, "output", index, *activation);
  return true;
}

/// The first node that reads an input as floats, and which input; what keeps the inputs from being integers.
std::pair<const ir::Node*, size_t> reader_of_floats(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const ir::Value& input = *graph.inputs()[i];
    if (input.type.is_tensor() && input.type.tensor.dtype == ScalarType::Float) {
      for (const ir::Node* user : input.users()) {
        if (user->op != kQuantizePerTensor && !reads_size(*user)) {
          return {user, i};
        }
      }
    }
  }
  return {nullptr, 0};
}

}  // namespace

PassInfo QuantizeBorders::info() const {
  PassInfo info{"quantize-borders", "Makes inputs and outputs of the integers that they stand for, on request"};
  info.scope = Scope::kMethod;
  return info;
}

Result<Changed> QuantizeBorders::run(ir::Graph& graph, PassContext& context) {
  if (!context.options.quantized_io) {
    return Changed::kNo;
  }
  bool changed = false;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    changed = take_integers(graph, context.program, i) || changed;
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    changed = give_integers(graph, context.program, i) || changed;
  }
  if (!changed) {
    const auto [reader, index] = reader_of_floats(graph);
    const std::string why =
        reader == nullptr ? "" : " (" + reader->op + " reads input " + std::to_string(index) + " as floats)";
    return diagnose(context.diagnostics, Error::InvalidArgument, graph, reader,
                    "quantized_io is asked for, but no input or output is quantized with one scale" + why +
                        "; quantize the model statically, or leave it out");
  }
  return Changed::kYes;
}

}  // namespace et::passes
