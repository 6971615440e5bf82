#include "passes/fuse_gru_gates.h"

#include <algorithm>

#include "ops/names.h"
#include "passes/step_gates.h"

namespace et::passes {
namespace {

/// Of a state that is a constant, as that of a first step is, the gates are constants.
const ir::Pattern kStep = R"(
  after = add(n, mul(z, sub(state, n))) | add(mul(sub(1, z), n), mul(z, state))
  n = tanh(add(in, mul(r, hn)))
  r = sigmoid(add(ir, hr))
  z = sigmoid(add(iz, hz))
  ir = dequantize?(split(input, _, -1)#0, scale, zero_point, quant_min, quant_max, dtype)
  iz = dequantize?(split(input, _, -1)#1, scale, zero_point, quant_min, quant_max, dtype)
  in = dequantize?(split(input, _, -1)#2, scale, zero_point, quant_min, quant_max, dtype)
  hr = &constant() | dequantize?(split(hidden, _, -1)#0, scale2, zero_point2, quant_min2, quant_max2, dtype2)
  hz = &constant() | dequantize?(split(hidden, _, -1)#1, scale2, zero_point2, quant_min2, quant_max2, dtype2)
  hn = &constant() | dequantize?(split(hidden, _, -1)#2, scale2, zero_point2, quant_min2, quant_max2, dtype2)
)";
constexpr std::string_view kInput[] = {"ir", "iz", "in"};
constexpr std::string_view kHidden[] = {"hr", "hz", "hn"};
constexpr size_t kGates = std::size(kHidden);

bool are_constants(const ir::Match& m, const ir::Program& program, const ir::TensorType& state) {
  return state.is_static() && std::all_of(std::begin(kHidden), std::end(kHidden), [&](std::string_view name) {
           const ir::Constant* constant = constant_of(program, m[name]);
           return constant != nullptr && m.value(name)->type.tensor == state && constant->type == state;
         });
}

bool is_step(const ir::Match& m, const ir::Program& program) {
  const ir::TensorType& state = m.value("after")->type.tensor;
  return is_untagged(m) && m.value("state") != nullptr && m.value("state")->type.tensor == state &&
         are_gates(m, kInput, state) &&
         (m["hidden"].is_none() ? are_constants(m, program, state) : m.kept.empty() && are_gates(m, kHidden, state));
}

/// The gates of a first step, side by side.
ir::Value* joined_constants(const ir::Match& m, ir::Program& program) {
  ir::TensorType type = m.value("hr")->type.tensor;
  const auto size = static_cast<size_t>(type.dims.back().max);
  const size_t rows = size == 0 ? 0 : static_cast<size_t>(type.numel()) / size;
  type.dims.back() = type.dims.back().max * static_cast<int64_t>(kGates);
  float* to = nullptr;
  ir::Constant joined = new_constant(std::move(type), &to);
  for (size_t i = 0; i < rows * kGates; ++i) {
    const auto* from = static_cast<const float*>(constant_of(program, m[kHidden[i % kGates]])->data);
    std::copy_n(from + i / kGates * size, size, to + i * size);
  }
  return add_constant(program, *m.root()->graph(), m.root()->result()->name + "_gates", std::move(joined), m.root());
}

void fuse(const ir::Match& m, ir::Program& program) {
  ir::Node* const last = m.root();
  ir::Value* const input = gates_before(m, kInput, *last);
  ir::Value* const hidden = m["hidden"].is_none() ? joined_constants(m, program) : gates_before(m, kHidden, *last);
  ir::Node* fused = create_like(*last, op::et_gru_gates, {{input}, {hidden}, m["state"]});
  ir::Value* state = fused->add_result("state", last->result()->type);
  last->graph()->replace_all_uses(last->result(), state);
  std::swap(last->result()->name, state->name);
  erase_unread(m.nodes, fused);
}

}  // namespace

PassInfo FuseGruGates::info() const {
  return PassInfo::extension("fuse-gru-gates", "Makes one operator of what a step of a GRU does with its gates");
}

Result<Changed> FuseGruGates::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    const auto where = [&](const ir::Match& match) { return is_step(match, context.program); };
    const std::optional<ir::Match> found = kStep.match(*node, context.program, where);
    if (found) {
      fuse(*found, context.program);
    }
    return found.has_value();
  });
}

}  // namespace et::passes
