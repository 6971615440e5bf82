#include "passes/fuse_activation.h"

#include <algorithm>

#include "ops/names.h"
#include "passes/clamps.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// Producers and what they become; the fused operator takes the same arguments, then min and max.
constexpr std::pair<std::string_view, std::string_view> kFused[] = {
    {op::convolution, op::et_convolution_clamp},
    {op::linear, op::et_linear_clamp},
    {op::addmm, op::et_addmm_clamp},
};

bool is_bound(const ir::Argument& argument) { return argument.is_none() || number_of(argument).has_value(); }

/// Whether a clamp may become part of what makes `value`, its input.
bool is_fusible(const ir::Node& clamp, const Bounds& bounds, const ir::Value* value) {
  const ir::TensorType& type = clamp.result()->type.tensor;
  return is_bound(bounds.min) && is_bound(bounds.max) && value->producer()->graph() == clamp.graph() &&
         value->producer()->tag == clamp.tag && is_only_use(value, &clamp) && value->type.tensor == type &&
         is_floating(type.dtype);
}

bool fuse(ir::Node* activation) {
  const std::optional<Bounds> bounds = bounds_of(*activation);
  const ir::Value* const value = bounds ? activation->args()[0].value() : nullptr;
  ir::Node* const producer = value == nullptr ? nullptr : value->producer();
  const auto* const fused = std::find_if(std::begin(kFused), std::end(kFused), [&](const auto& pair) {
    return producer != nullptr && pair.first == producer->op;
  });
  if (fused == std::end(kFused) || !is_fusible(*activation, *bounds, value)) {
    return false;
  }
  std::vector<ir::Argument> args = producer->args();
  args.push_back(bounds->min);
  args.push_back(bounds->max);
  ir::Node* node = create_like(*producer, fused->second, std::move(args));
  activation->graph()->move_before(node, activation);
  node->add_result(activation->result()->name, activation->result()->type);
  node->absorb(*producer);
  replace_node(activation, node);
  node->graph()->erase(producer);
  return true;
}

}  // namespace

PassInfo FuseActivation::info() const {
  return PassInfo::extension("fuse-activation", "Lets convolutions and products clamp their results themselves");
}

Result<Changed> FuseActivation::run(ir::Graph& graph, PassContext&) { return rewrite_each(graph, fuse); }

}  // namespace et::passes
