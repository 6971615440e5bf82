#include "passes/fuse_activation.h"

#include <algorithm>

#include "ir/pattern.h"
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

const ir::Pattern kClamped = R"(
  z = relu(y) | hardtanh(y, min, max) | clamp(y, min, max) | clamp_min(y, min) | clamp_max(y, max)
  y = convolution(...) | linear(...) | addmm(...)
)";

bool is_bound(const ir::Argument& argument) { return argument.is_none() || number_of(argument).has_value(); }

bool is_fusible(const ir::Match& m) {
  const ir::TensorType& type = m.root()->result()->type.tensor;
  return is_bound(m["min"]) && is_bound(m["max"]) && m.node("y")->tag == m.root()->tag &&
         m.value("y")->type.tensor == type && is_floating(type.dtype);
}

void fuse(const ir::Match& m) {
  ir::Node* const activation = m.root();
  ir::Node* const producer = m.node("y");
  const auto* const fused =
      std::find_if(std::begin(kFused), std::end(kFused), [&](const auto& pair) { return pair.first == producer->op; });
  std::vector<ir::Argument> args = producer->args();
  args.push_back(activation->op == op::relu ? ir::Argument{int64_t{0}} : m["min"]);
  args.push_back(m["max"]);
  ir::Node* node = create_like(*producer, fused->second, std::move(args));
  activation->graph()->move_before(node, activation);
  node->add_result(activation->result()->name, activation->result()->type);
  node->absorb(*producer);
  replace_node(activation, node);
  node->graph()->erase(producer);
}

}  // namespace

PassInfo FuseActivation::info() const {
  return PassInfo::extension("fuse-activation", "Lets convolutions and products clamp their results themselves");
}

Result<Changed> FuseActivation::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    const std::optional<ir::Match> found = kClamped.match(*node, context.program, is_fusible);
    if (found) {
      fuse(*found);
    }
    return found.has_value();
  });
}

}  // namespace et::passes
