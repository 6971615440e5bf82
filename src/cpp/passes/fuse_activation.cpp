#include "passes/fuse_activation.h"

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// Producers and what they become; the fused operator takes the same arguments, then min and max.
constexpr std::pair<std::string_view, std::string_view> kFused[] = {
    {op::convolution, op::et_convolution_clamp},
    {op::linear, op::et_linear_clamp},
    {op::addmm, op::et_addmm_clamp},
};

struct Bounds {
  ir::Argument min;
  ir::Argument max;
};

bool is_bound(const ir::Argument& argument) { return argument.is_none() || number_of(argument).has_value(); }

/// The bounds of an activation that is a clamp by numbers.
std::optional<Bounds> bounds_of(const ir::Node& node) {
  Bounds bounds;
  if (node.op == op::relu) {
    bounds.min.data = int64_t{0};
  } else if (node.op == op::hardtanh || node.op == op::clamp) {
    bounds = {ops::Clamp(node).min(), ops::Clamp(node).max()};
  } else if (node.op == op::clamp_min) {
    bounds.min = ops::ClampMin(node).min();
  } else if (node.op == op::clamp_max) {
    bounds.max = ops::ClampMax(node).max();
  } else {
    return std::nullopt;
  }
  return is_bound(bounds.min) && is_bound(bounds.max) ? std::optional<Bounds>(std::move(bounds)) : std::nullopt;
}

/// Fuses `activation` into its producer; true when it did.
bool fuse(ir::Node* activation) {
  for (const auto& [op, fused] : kFused) {
    ir::Node* producer = producer_if(activation->args()[0], {op});
    if (producer == nullptr) {
      continue;
    }
    const std::optional<Bounds> bounds = bounds_of(*activation);
    const ir::TensorType& type = activation->result()->type.tensor;
    if (!bounds || producer->tag != activation->tag || producer->graph() != activation->graph() ||
        !is_only_use(producer->result(), activation) || producer->result()->type.tensor != type ||
        !is_floating(type.dtype)) {
      return false;
    }
    std::vector<ir::Argument> args = producer->args();
    args.push_back(bounds->min);
    args.push_back(bounds->max);
    ir::Node* node = create_like(*producer, fused, std::move(args));
    activation->graph()->move_before(node, activation);
    node->add_result(activation->result()->name, activation->result()->type);
    node->absorb(*producer);
    replace_node(activation, node);
    node->graph()->erase(producer);
    return true;
  }
  return false;
}

}  // namespace

PassInfo FuseActivation::info() const {
  return PassInfo::extension("fuse-activation", "Lets convolutions and products clamp their results themselves");
}

Result<Changed> FuseActivation::run(ir::Graph& graph, PassContext&) {
  return rewrite_each(graph, [](ir::Node* node) { return !node->args().empty() && bounds_of(*node) && fuse(node); });
}

}  // namespace et::passes
