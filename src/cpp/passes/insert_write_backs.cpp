#include "passes/insert_write_backs.h"

#include <algorithm>

#include "ops/names.h"
#include "passes/memory_groups.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// Kernels whose in-place form is another operator, which also the official runtime has.
constexpr std::pair<std::string_view, std::string_view> kInPlaceForms[] = {
    {op::index_put_out, op::index_put_},
};

/// What is written: the value of the buffer's node (made when nothing reads the buffer), or the input.
ir::Value* target_of(const ir::Write& write, ir::Graph& method, const PassContext& context) {
  if (write.target == ir::Write::Target::kInput) {
    return method.inputs()[write.input_index].get();
  }
  for (const auto& node : method.nodes()) {
    if (node->op == "buffer" && node->symbol == write.buffer) {
      return node->result();
    }
  }
  ir::Node* first = method.nodes().empty() ? nullptr : method.nodes().front().get();
  ir::Node* node = method.create_node("buffer", {}, first);
  node->symbol = write.buffer;
  return node->add_result(write.buffer, ir::Type::of(context.program.buffers.find(write.buffer)->second.initial.type));
}

/// A copy of `value` at the end of the method.
ir::Value* clone(ir::Graph& method, ir::Value* value) {
  ir::Node* node =
      method.create_node(op::dim_order_ops_clone_dim_order_out, {{value}, {false}, order_argument(value->type.tensor)});
  serve_maker(node, value);
  return node->add_result(value->name + "_before", value->type);
}

/// Old content that outlives the writes: outputs, and values written to another target.
void keep_old_content(ir::Graph& method, const std::vector<ir::Value*>& targets) {
  const auto is_target = [&](const ir::Value* value) { return may_share_memory(value, targets); };
  for (ir::Output& output : method.outputs) {
    if (ir::Value* value = output.value(); value != nullptr && is_target(value)) {
      output.data = clone(method, value);
    }
  }
  for (size_t i = 0; i < method.writes.size(); ++i) {
    ir::Value*& value = method.writes[i].value;
    if (value->root() != targets[i] && is_target(value)) {
      value = clone(method, value);
    }
  }
}

/// Arguments of `node` that are in the target's memory may all be overwritten while the node runs.
bool reads_in_place_only(const ir::Node& node, const ir::Value* target, const ir::Value* result,
                         const PassContext& context) {
  const uint32_t overwritable = overwritable_arguments(node, result, context);
  for (size_t i = 0; i < node.args().size(); ++i) {
    const ir::Argument& argument = node.args()[i];
    if (const auto* list = argument.as<ir::Argument::List>()) {
      for (const ir::Argument& item : *list) {
        if (item.value() != nullptr && item.value()->root() == target) {
          return false;
        }
      }
      continue;
    }
    const ir::Value* value = argument.value();
    if (value == nullptr || value->root() != target) {
      continue;
    }
    if ((overwritable >> i & 1u) == 0 || value->type.tensor != result->type.tensor) {
      return false;
    }
  }
  return true;
}

/// The node that makes `value` can leave it in `target`.
bool can_write_directly(const ir::Value* value, const ir::Value* target, const MemoryGroups& groups,
                        const PassContext& context) {
  const ir::Node* node = value->producer();
  if (node == nullptr || node->graph() != target->graph() || !node->regions.empty() || value->alias_of != nullptr ||
      is_external(value) || value->type.tensor != target->type.tensor || target->producer() == nullptr) {
    return false;  // an input's memory may be the caller's: it changes at the end, when nothing can fail any more
  }
  const ir::Graph& method = *target->graph();
  const auto returned = std::any_of(method.outputs.begin(), method.outputs.end(), [&](const ir::Output& output) {
    return output.value() != nullptr && output.value()->root() == value;
  });
  return (!returned || context.options.plan_outputs) && !groups.is_returned(target) &&
         groups.last_use(target) <= groups.position(node) && reads_in_place_only(*node, target, value, context);
}

void use_in_place_form(ir::Node& node) {
  for (const auto& [out, in_place] : kInPlaceForms) {
    if (node.op == out && ops::find_op(in_place) != nullptr &&
        node.args()[0].value()->root() == node.result()->root()) {
      node.op = in_place;
    }
  }
}

}  // namespace

PassInfo InsertWriteBacks::info() const {
  return {"insert-write-backs", "Makes nodes change buffers and inputs, in place where that is safe",
          ir::Stage::kLowered,  ir::Stage::kLowered,
          Scope::kMethod,       /*is_required=*/true};
}

Result<Changed> InsertWriteBacks::run(ir::Graph& method, PassContext& context) {
  if (method.writes.empty()) {
    return Changed::kNo;
  }
  std::vector<ir::Value*> targets;
  for (const ir::Write& write : method.writes) {
    targets.push_back(target_of(write, method, context));
  }
  keep_old_content(method, targets);
  MemoryGroups groups(method);
  for (size_t i = 0; i < method.writes.size(); ++i) {
    ir::Value* value = method.writes[i].value;
    ir::Value* target = targets[i];
    if (value == target) {
      continue;
    }
    if (can_write_directly(value, target, groups, context)) {
      groups.make_alias(value, target);
      use_in_place_form(*value->producer());
      continue;
    }
    ir::Node* copy = method.create_node(op::copy_, {{target}, {value}, {false}});
    serve_maker(copy, value);
    ir::Value* written = copy->add_result(target->name + "_after", target->type);
    written->alias_of = target;
    method.writes[i].value = written;
  }
  return Changed::kYes;
}

}  // namespace et::passes
