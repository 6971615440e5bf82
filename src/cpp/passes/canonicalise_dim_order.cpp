#include "passes/canonicalise_dim_order.h"

#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

ir::TensorType row_major(const ir::TensorType& type) { return ir::TensorType::contiguous(type.dtype, type.dims); }

/// _to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format), clone(self, memory_format) and
/// empty.memory_format(size, dtype, layout, device, pin_memory, memory_format): the format is last in each.
bool rename(ir::Node& node) {
  std::vector<ir::Argument> args = node.args();
  ir::Argument order = order_argument(node.results().empty() ? ir::TensorType() : node.result()->type.tensor);
  if (node.op == op::_to_copy) {
    node.op = op::dim_order_ops_to_dim_order_copy;
  } else if (node.op == op::clone) {
    node.op = op::dim_order_ops_clone_dim_order;
    const ir::Argument non_blocking{false};
    args = {args[0], non_blocking, order};
  } else if (node.op == op::empty_memory_format) {
    node.op = op::dim_order_ops_empty_dim_order;
  } else {
    return false;
  }
  args.back() = std::move(order);
  node.set_args(std::move(args));
  return true;
}

/// Converts inputs in another order, once.
bool convert_inputs(ir::Graph& graph) {
  bool changed = false;
  ir::Node* first = graph.nodes().empty() ? nullptr : graph.nodes().front().get();
  for (const auto& input : graph.inputs()) {
    if (!input->type.is_tensor() || input->type.tensor.is_row_major() || input->users().empty()) {
      continue;
    }
    const ir::TensorType type = row_major(input->type.tensor);
    ir::Node* convert = graph.create_node(op::dim_order_ops_clone_dim_order, {}, first);
    serve_maker(convert, input.get());
    ir::Value* converted = convert->add_result(input->name + "_row_major", ir::Type::of(type));
    for (ir::Node* user : std::vector<ir::Node*>(input->users())) {
      for (size_t i = 0; i < user->args().size(); ++i) {
        ir::Argument argument = user->args()[i];
        if (argument.value() == input.get()) {
          user->set_arg(i, {converted});
        } else if (auto* list = std::get_if<ir::Argument::List>(&argument.data)) {
          for (ir::Argument& item : *list) {
            item = item.value() == input.get() ? ir::Argument{converted} : item;
          }
          user->set_arg(i, std::move(argument));
        }
      }
    }
    convert->set_args({{input.get()}, {false}, order_argument(type)});
    changed = true;
  }
  return changed;
}

}  // namespace

PassInfo CanonicaliseDimOrder::info() const {
  return {"canonicalise-dim-order",
          "Brings every value to row-major order; memory formats become dim orders",
          ir::Stage::kEdge,
          ir::Stage::kEdge,
          Scope::kGraph,
          /*is_required=*/true};
}

Result<Changed> CanonicaliseDimOrder::run(ir::Graph& graph, PassContext&) {
  Changed changed = Changed::kNo;
  for (const auto& node : graph.nodes()) {
    for (const auto& result : node->results()) {
      const bool fixed = is_one_of(node->op, {"constant", "buffer", "delegate"});
      if (!fixed && result->type.is_tensor() && !result->type.tensor.is_row_major()) {
        result->type.tensor = row_major(result->type.tensor);
        changed = Changed::kYes;
      }
    }
    changed = rename(*node) ? Changed::kYes : changed;
  }
  // A region's inputs are its operands under another name, so only a method's can differ.
  return graph.owner == nullptr && convert_inputs(graph) ? Changed::kYes : changed;
}

}  // namespace et::passes
