#include "passes/quantize_borders.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ir/op_views.h"
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

/// Whether a node reads a size of its argument only, which is the same for integers.
bool reads_size(const ir::Node& node) { return node.op == op::sym_size_int; }

/// Whether a node gives its argument in another order of memory, as inputs come that are not row-major.
bool changes_order(const ir::Node& node) {
  return node.op == op::dim_order_ops_clone_dim_order ||
         (node.op == op::dim_order_ops_to_dim_order_copy && ops::DimOrderOpsToDimOrderCopy_(node).dtype().is_none());
}

/// How all users that read elements quantize the value, in whatever order; nothing when one does something else, or
/// gives the elements back.
std::optional<Activation> common_quantization(const ir::Graph& graph, const ir::Value& value) {
  std::optional<Activation> found;
  for (const ir::Node* user : value.users()) {
    if (reads_size(*user)) {
      continue;
    }
    if (user->graph() != &graph || graph.is_output(user->result())) {
      return std::nullopt;
    }
    const std::optional<Activation> own = user->op == kQuantizePerTensor ? affine_of(*user)
                                          : changes_order(*user)         ? common_quantization(graph, *user->result())
                                                                         : std::nullopt;
    if (!own || (found && !found->same_parameters(*own))) {
      return std::nullopt;
    }
    found = own;
  }
  return found;
}

/// Makes the value, and what is only another order of it, the integers of `dtype` that its users quantize it to.
void make_integers(ir::Graph& graph, ir::Value& value, ScalarType dtype) {
  value.type.tensor.dtype = dtype;
  const std::vector<ir::Node*> users = value.users();
  for (ir::Node* user : users) {
    if (changes_order(*user)) {
      make_integers(graph, *user->result(), dtype);
    } else if (!reads_size(*user)) {
      graph.replace_all_uses(user->result(), &value);
      graph.erase(user);
    }
  }
}

bool take_integers(ir::Graph& graph, ir::Program& program, size_t index) {
  ir::Value& input = *graph.inputs()[index];
  if (!input.type.is_tensor() || input.type.tensor.dtype != ScalarType::Float || graph.is_output(&input) ||
      is_written(graph, index)) {
    return false;
  }
  const std::optional<Activation> activation = common_quantization(graph, input);
  if (!activation) {
    return false;
  }
  make_integers(graph, input, activation->dtype);
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
