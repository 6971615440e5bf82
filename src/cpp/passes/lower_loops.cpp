#include "passes/lower_loops.h"

#include <algorithm>

#include "ops/names.h"
#include "passes/memory_groups.h"
#include "passes/rewrite.h"
#include "passes/size_expression.h"

namespace et::passes {
namespace {

constexpr const char* kClone = op::dim_order_ops_clone_dim_order_out;

ir::Type int_type() { return ir::Type::of(ir::Kind::kInt); }

/// A copy of `value` in memory of its own, made by a node of `graph` before `before`.
ir::Value* clone(ir::Graph& graph, ir::Value* value, ir::Node* before, const ir::Node& cause) {
  ir::Node* node = graph.create_node(kClone, {{value}, {false}, order_argument(value->type.tensor)}, before);
  serve(node, cause);
  return node->add_result(value->name + "_own", value->type);
}

ir::Node* first_node(const ir::Graph& graph) { return graph.nodes().empty() ? nullptr : graph.nodes().front().get(); }

/// map and scan in the same words: what is carried, and what is taken item by item.
struct ItemLoop {
  std::vector<ir::Argument> initial;  ///< empty for map
  std::vector<ir::Value*> scanned;    ///< their first dim is walked along
};

ItemLoop item_loop(const ir::Node& node) {
  ItemLoop loop;
  const auto add_scanned = [&](const ir::Argument& argument) {
    if (argument.value() != nullptr) {
      loop.scanned.push_back(argument.value());
    }
  };
  if (node.op == "map") {
    std::for_each(node.args().begin(), node.args().end(), add_scanned);
    return loop;
  }
  const auto* initial = node.args().empty() ? nullptr : node.args()[kInitial].as<ir::Argument::List>();
  const auto* scanned = node.args().size() <= kScanned ? nullptr : node.args()[kScanned].as<ir::Argument::List>();
  if (initial != nullptr && scanned != nullptr) {
    loop.initial.assign(initial->begin(), initial->end());
    std::for_each(scanned->begin(), scanned->end(), add_scanned);
  }
  return loop;
}

/// Memory for a stacked result, before the loop.
Result<ir::Value*> stacked_result(const ir::Value& result, ir::Node& before, PassContext& context) {
  ir::Argument::List sizes;
  for (const ir::Dim& dim : result.type.tensor.dims) {
    const std::optional<ir::Argument> size = size_argument(dim, before);
    if (!size) {
      return diagnose(context.diagnostics, Error::NotSupported, *before.graph()->method(), &before,
                      "result %" + result.name + " has the size " + dim.expr +
                          ", which does not follow from the sizes that are known before the loop");
    }
    sizes.push_back(*size);
  }
  ir::Node* node = before.graph()->create_node(op::dim_order_ops_empty_dim_order_out,
                                               {{std::move(sizes)}, order_argument(result.type.tensor)}, &before);
  serve(node, before);
  return node->add_result(result.name + "_items", result.type);
}

/// Replaces inputs [carried, carried + scanned) of the body by items of what is scanned.
void take_items(ir::Graph& body, size_t carried, const std::vector<ir::Value*>& scanned, ir::Value* counter,
                const ir::Node& cause) {
  ir::Node* first = first_node(body);
  for (ir::Value* source : scanned) {
    ir::Value* item = body.inputs()[carried].get();
    ir::Node* select = body.create_node(op::select_copy_int_out, {{source}, {int64_t{0}}, {counter}}, first);
    serve(select, cause);
    body.replace_all_uses(item, select->add_result(item->name + "_item", item->type));
    body.erase_input(carried);
  }
}

/// Makes a while_loop of a map or scan, before it, and erases it.
Result<ir::Node*> to_while_loop(ir::Node* node, PassContext& context) {
  ir::Graph& graph = *node->graph();
  const ItemLoop loop = item_loop(*node);
  const size_t carried = loop.initial.size();
  const size_t inputs = node->regions.size() == 1 ? node->regions[0]->inputs().size() : 0;
  if (loop.scanned.empty() || inputs != carried + loop.scanned.size() || node->results().size() < carried) {
    return diagnose(context.diagnostics, Error::InvalidProgram, *graph.method(), node,
                    node->op + " walks along at least one tensor, and its body takes an item of each");
  }
  // What is walked along has that size itself, so it is always found.
  const ir::Argument count = *size_argument(loop.scanned.front()->type.tensor.dims.front(), *node);
  std::vector<ir::Argument> args = {{int64_t{0}}};
  args.insert(args.end(), loop.initial.begin(), loop.initial.end());
  for (size_t i = carried; i < node->results().size(); ++i) {
    ET_TRY(ir::Value* const memory, stacked_result(*node->result(i), *node, context));
    args.push_back({memory});
  }
  ir::Node* result = create_like(*node, "while_loop", std::move(args));
  ir::Graph* condition = result->add_region("condition");
  ir::Value* turn = condition->add_input("turn", int_type());
  ir::Node* compare = condition->create_node(op::executorch_prim_lt_Scalar, {{turn}, count});
  serve(compare, *node);
  condition->outputs = {{compare->add_result("more", ir::Type::of(ir::Kind::kBool))}};

  // The body takes carried values and items; it is to take a counter, carried values and stacked results. Inputs are
  // only appended, so the carried ones are made anew behind the counter.
  ir::Graph* body = result->adopt_region(*node, 0);
  ir::Value* counter = body->add_input("i", int_type());
  take_items(*body, carried, loop.scanned, counter, *node);
  for (size_t i = 0; i < carried; ++i) {
    ir::Value* old = body->inputs()[0].get();
    ir::Value* slot = body->add_input(old->name, old->type);
    body->replace_all_uses(old, slot);
    body->erase_input(0);
  }
  for (size_t i = 0; i < node->results().size(); ++i) {
    condition->add_input(node->result(i)->name + "_c", node->result(i)->type);
    if (i < carried) {
      continue;
    }
    ir::Value* slot = body->add_input(node->result(i)->name + "_items", node->result(i)->type);
    ir::Node* put = body->create_node(op::executorch_prim_et_copy_index_tensor, {{slot}, body->outputs[i], {counter}});
    serve(put, *node);
    body->outputs[i].data = slot;
  }
  ir::Node* increment = body->create_node(op::executorch_prim_add_Scalar, {{counter}, {int64_t{1}}});
  serve(increment, *node);
  const ir::Argument next{increment->add_result("next", int_type())};
  body->outputs.insert(body->outputs.begin(), next);
  result->add_result("turns", int_type());
  for (const auto& old : node->results()) {
    graph.replace_all_uses(old.get(), result->add_result(old->name, old->type));
  }
  result->absorb(*node);
  graph.erase(node);
  return result;
}

/// A copy of a number, for moves that would overwrite it first.
ir::Value* copy_number(ir::Graph& body, ir::Value* value, const ir::Node& cause) {
  const bool is_bool = value->type.kind == ir::Kind::kBool;
  ir::Node* node = is_bool ? body.create_node(op::executorch_prim_sym_ite_Scalar, {{value}, {true}, {false}})
                           : body.create_node(op::executorch_prim_add_Scalar, {{value}, {int64_t{0}}});
  serve(node, cause);
  return node->add_result(value->name + "_old", value->type);
}

/// Gives the carried tensors memory of their own, and leaves each turn's tensors there.
void own_memory(ir::Node* node, const PassOptions& options) {
  ir::Graph& graph = *node->graph();
  ir::Graph& body = *node->regions[1];
  std::vector<ir::Argument> args = node->args();
  std::vector<ir::Value*> slots;
  for (size_t i = 0; i < args.size(); ++i) {
    slots.push_back(body.inputs()[i].get());
    ir::Value* value = args[i].value();
    if (value == nullptr || !value->type.is_tensor()) {
      continue;
    }
    const bool is_fresh = value->producer() != nullptr && value->producer()->graph() == &graph &&
                          value->producer()->op == op::dim_order_ops_empty_dim_order_out && is_only_use(value, node);
    if (!is_fresh) {
      args[i].data = clone(graph, value, node, *node);
    }
  }
  node->set_args(std::move(args));
  // What one slot gets from another is kept before anything changes.
  for (size_t i = 0; i < slots.size(); ++i) {
    ir::Value* next = body.outputs[i].value();
    if (next == nullptr || next == slots[i]) {
      continue;
    }
    std::vector<ir::Value*> others = slots;
    others.erase(others.begin() + static_cast<ptrdiff_t>(i));
    if (!may_share_memory(next, others)) {
      continue;
    }
    body.outputs[i].data = next->type.is_tensor() ? clone(body, next, nullptr, *node) : copy_number(body, next, *node);
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    ir::Value* next = body.outputs[i].value();
    if (next == nullptr || !next->type.is_tensor() || next == slots[i]) {
      continue;
    }
    ir::Node* copy = body.create_node(op::copy_, {{slots[i]}, {next}, {false}});
    serve(copy, *node);
    ir::Value* written = copy->add_result(slots[i]->name + "_next", slots[i]->type);
    written->alias_of = slots[i];
    body.outputs[i].data = written;
  }
  if (options.plan_outputs || graph.owner != nullptr) {
    return;
  }
  // The caller gives the memory of outputs, a loop needs its own.
  for (const auto& result : node->results()) {
    if (result->type.is_tensor() && graph.is_output(result.get())) {
      ir::Value* copy = clone(graph, result.get(), graph.next(node), *node);
      for (ir::Output& output : graph.outputs) {
        if (output.value() == result.get()) {
          output.data = copy;
        }
      }
    }
  }
}

}  // namespace

PassInfo LowerLoops::info() const {
  return {"lower-loops",       "Brings map, scan and while_loop into the form that instructions can say",
          ir::Stage::kLowered, ir::Stage::kLowered,
          Scope::kGraph,       /*is_required=*/true};
}

Result<Changed> LowerLoops::run(ir::Graph& graph, PassContext& context) {
  Changed changed = Changed::kNo;
  ir::Node* next = nullptr;
  for (ir::Node* node = first_node(graph); node != nullptr; node = next) {
    next = graph.next(node);
    if (node->op == "map" || node->op == "scan") {
      ET_TRY(node, to_while_loop(node, context));
    }
    if (node->op == "while_loop") {
      own_memory(node, context.options);
      changed = Changed::kYes;
    }
  }
  return changed;
}

}  // namespace et::passes
