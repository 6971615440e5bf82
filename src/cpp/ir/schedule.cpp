#include "ir/schedule.h"

#include "base/log.h"

namespace et::ir {
namespace {

/// The node's arguments from the `first` on, a list as its items.
Argument::List operands_of(const Node& node, size_t first) {
  Argument::List operands;
  for (size_t i = first; i < node.args().size(); ++i) {
    if (const auto* list = node.args()[i].as<Argument::List>()) {
      operands.insert(operands.end(), list->begin(), list->end());
    } else {
      operands.push_back(node.args()[i]);
    }
  }
  return operands;
}

/// True when the memory of `value` is that of `target`.
bool shares_memory(const Value* value, const Value* target) {
  while (value != nullptr && value != target) {
    value = value->alias_of;
  }
  return value != nullptr;
}

}  // namespace

Result<Schedule> Schedule::of(const Graph& graph) {
  Schedule schedule;
  ET_RETURN_IF_ERROR(schedule.add_graph(graph));
  return schedule;
}

Argument Schedule::resolve(Value* value) const {
  Argument argument{value};
  return resolve(argument);
}

Argument Schedule::resolve(const Argument& argument) const {
  Argument current = argument;
  while (Value* value = current.value()) {
    const auto found = bindings_.find(value);
    if (found == bindings_.end()) {
      break;
    }
    current = found->second;
  }
  return current;
}

Error Schedule::add_graph(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (node->regions.empty()) {
      Step step;
      step.node = node.get();
      steps_.push_back(std::move(step));
    } else if (node->op == "cond") {
      ET_RETURN_IF_ERROR(add_cond(*node));
    } else if (node->op == "while_loop") {
      ET_RETURN_IF_ERROR(add_while(*node));
    } else {
      ET_CHECK_OR_RETURN(false, InvalidProgram, "%s in %s has regions, but no order of steps is known for it",
                         node->op.c_str(), graph.name.c_str());
    }
  }
  return Error::Ok;
}

Error Schedule::add_cond(const Node& node) {
  const Argument::List operands = operands_of(node, 1);
  ET_CHECK_OR_RETURN(!node.args().empty() && node.regions.size() == 2, InvalidProgram,
                     "cond takes a predicate and two regions");
  std::vector<size_t> jumps;
  for (size_t i = 0; i < 2; ++i) {
    const Graph& region = *node.regions[i];
    ET_CHECK_OR_RETURN(region.outputs.size() == node.results().size() && region.inputs().size() == operands.size(),
                       InvalidProgram,
                       "a branch of cond takes %zu operands and gives %zu results, it must be %zu and %zu",
                       region.inputs().size(), region.outputs.size(), operands.size(), node.results().size());
    for (size_t k = 0; k < operands.size(); ++k) {
      bindings_.emplace(region.inputs()[k].get(), operands[k]);
    }
    if (i == 0) {
      jumps.push_back(add_jump(node, node.args()[0]));
    } else {
      steps_[jumps[0]].target = steps_.size();
    }
    ET_RETURN_IF_ERROR(add_graph(region));
    for (size_t k = 0; k < region.outputs.size(); ++k) {
      add_move(node, region.outputs[k], node.result(k));
    }
    if (i == 0) {
      jumps.push_back(add_jump(node, Argument{false}));
    }
  }
  steps_[jumps[1]].target = steps_.size();
  return Error::Ok;
}

Error Schedule::add_while(const Node& node) {
  const Argument::List carried = operands_of(node, 0);
  ET_CHECK_OR_RETURN(node.regions.size() == 2, InvalidProgram, "while_loop takes two regions");
  const Graph& condition = *node.regions[0];
  const Graph& body = *node.regions[1];
  const size_t count = carried.size();
  ET_CHECK_OR_RETURN(condition.inputs().size() == count && condition.outputs.size() == 1 &&
                         body.inputs().size() == count && body.outputs.size() == count &&
                         node.results().size() == count,
                     InvalidProgram, "while_loop carries %zu values, its regions do not", count);
  for (size_t i = 0; i < count; ++i) {
    Value* slot = body.inputs()[i].get();
    if (slot->type.is_tensor()) {
      bindings_.emplace(slot, carried[i]);
    } else {
      add_move(node, carried[i], slot);
    }
    bindings_.emplace(condition.inputs()[i].get(), Argument{slot});
    bindings_.emplace(node.result(i), Argument{slot});
  }
  const size_t begin = steps_.size();
  ET_RETURN_IF_ERROR(add_graph(condition));
  const size_t exit = add_jump(node, condition.outputs[0]);
  ET_RETURN_IF_ERROR(add_graph(body));
  for (size_t i = 0; i < count; ++i) {
    Value* slot = body.inputs()[i].get();
    if (!slot->type.is_tensor()) {
      if (body.outputs[i].value() != slot) {
        add_move(node, body.outputs[i], slot);
      }
      continue;
    }
    ET_CHECK_OR_RETURN(shares_memory(body.outputs[i].value(), slot), InvalidProgram,
                       "while_loop: tensor %zu of the body is not left in the memory of the carried one", i);
  }
  steps_[add_jump(node, Argument{false})].target = begin;
  steps_[exit].target = steps_.size();
  loops_.push_back({begin, steps_.size()});
  return Error::Ok;
}

void Schedule::add_move(const Node& node, const Argument& from, const Value* to) {
  Step step;
  step.kind = Step::Kind::kMove;
  step.node = &node;
  step.from = from;
  step.to = to;
  steps_.push_back(std::move(step));
}

size_t Schedule::add_jump(const Node& node, Argument condition) {
  Step step;
  step.kind = Step::Kind::kJumpFalse;
  step.node = &node;
  step.from = std::move(condition);
  steps_.push_back(std::move(step));
  return steps_.size() - 1;
}

}  // namespace et::ir
