#include "passes/fuse_lstm_gates.h"

#include "ops/names.h"
#include "passes/step_gates.h"

namespace et::passes {
namespace {

const ir::Pattern kStep = R"(
  hidden = mul(sigmoid(o), tanh(cell))
  cell = &add(mul(sigmoid(f), before), mul(sigmoid(i), tanh(g)))
  i = dequantize?(split(sums, _, -1)#0, scale, zero_point, quant_min, quant_max, dtype)
  f = dequantize?(split(sums, _, -1)#1, scale, zero_point, quant_min, quant_max, dtype)
  g = dequantize?(split(sums, _, -1)#2, scale, zero_point, quant_min, quant_max, dtype)
  o = dequantize?(split(sums, _, -1)#3, scale, zero_point, quant_min, quant_max, dtype)
)";
constexpr std::string_view kGates[] = {"i", "f", "g", "o"};

bool is_step(const ir::Match& m) {
  const ir::TensorType& state = m.value("cell")->type.tensor;
  return is_untagged(m) && m.value("before") != nullptr && m.value("before")->type.tensor == state &&
         m.value("hidden")->type.tensor == state && are_gates(m, kGates, state);
}

void fuse(const ir::Match& m) {
  ir::Graph& graph = *m.root()->graph();
  ir::Node* const cell = m.node("cell");
  // Everything that reads c' comes behind it, and so does what takes its place: it stands where c' was computed.
  ir::Value* const gates = gates_before(m, kGates, *cell);
  ir::Node* fused = create_like(*cell, op::et_lstm_gates, {{gates}, m["before"]});
  for (ir::Value* const old : {m.value("hidden"), m.value("cell")}) {
    ir::Value* made = fused->add_result(old->name, old->type);
    graph.replace_all_uses(old, made);
    std::swap(old->name, made->name);
  }
  std::vector<ir::Node*> nodes = m.nodes;
  nodes.push_back(cell);
  erase_unread(std::move(nodes), fused);
}

}  // namespace

PassInfo FuseLstmGates::info() const {
  return PassInfo::extension("fuse-lstm-gates", "Makes one operator of what a step of an LSTM does with its gates");
}

Result<Changed> FuseLstmGates::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    const std::optional<ir::Match> found = kStep.match(*node, context.program, is_step);
    if (found) {
      fuse(*found);
    }
    return found.has_value();
  });
}

}  // namespace et::passes
