#include "passes/fuse_gru_gates.h"

#include <algorithm>
#include <array>

#include "ops/names.h"
#include "passes/step_gates.h"

namespace et::passes {
namespace {

enum Gate : size_t { kReset, kUpdate, kCandidate, kGates };

/// What a step is made of.
struct Match {
  ir::Node* last = nullptr;    ///< the sum that is h'
  ir::Value* state = nullptr;  ///< h
  GateSums input{kGates};
  GateSums hidden{kGates};
  std::array<ir::Value*, kGates> constants{};  ///< instead of `hidden`, where the state before is a constant
  StepNodes nodes;
};

bool is_plain(const ir::Node* sum) { return number_of(sum->args()[2]) == 1.0; }

/// True when `value` is a gate of the product with the state.
bool take_hidden(ir::Value* value, const ir::Node* user, Gate gate, Match& m) {
  if (value != nullptr && value->producer() != nullptr && value->producer()->op == "constant") {
    m.constants[gate] = value;
    return true;
  }
  return take_gate(value, user, gate, m.hidden, m.nodes);
}

/// sigmoid(a gate of the input + the same of the state)
bool take_sigmoid(ir::Value* value, std::initializer_list<const ir::Node*> users, Gate gate, Match& m) {
  const ir::Node* sigmoid = take(value, users, op::sigmoid, m.nodes);
  const ir::Node* sum =
      sigmoid == nullptr ? nullptr : take(sigmoid->args()[0].value(), {sigmoid}, op::add_Tensor, m.nodes);
  return sum != nullptr && is_plain(sum) && either_order(*sum, m, [&](ir::Value* of_input, ir::Value* of_state) {
           return take_gate(of_input, sum, gate, m.input, m.nodes) && take_hidden(of_state, sum, gate, m);
         });
}

/// n = tanh(in + r * hn)
bool take_candidate(ir::Value* value, std::initializer_list<const ir::Node*> users, Match& m) {
  const ir::Node* tanh = take(value, users, op::tanh, m.nodes);
  const ir::Node* sum = tanh == nullptr ? nullptr : take(tanh->args()[0].value(), {tanh}, op::add_Tensor, m.nodes);
  return sum != nullptr && is_plain(sum) && either_order(*sum, m, [&](ir::Value* of_input, ir::Value* scaled) {
           const ir::Node* product = take(scaled, {sum}, op::mul_Tensor, m.nodes);
           return product != nullptr && take_gate(of_input, sum, kCandidate, m.input, m.nodes) &&
                  either_order(*product, m, [&](ir::Value* reset, ir::Value* of_state) {
                    return take_hidden(of_state, product, kCandidate, m) && take_sigmoid(reset, {product}, kReset, m);
                  });
         });
}

/// h' = n + z * (h - n)
bool match_difference(Match& m) {
  return either_order(*m.last, m, [&](ir::Value* candidate, ir::Value* scaled) {
    const ir::Node* product = take(scaled, {m.last}, op::mul_Tensor, m.nodes);
    return product != nullptr && either_order(*product, m, [&](ir::Value* update, ir::Value* difference) {
             const ir::Node* sub = take(difference, {product}, op::sub_Tensor, m.nodes);
             if (sub == nullptr || !is_plain(sub) || sub->args()[1].value() != candidate) {
               return false;
             }
             m.state = sub->args()[0].value();
             return take_candidate(candidate, {m.last, sub}, m) && take_sigmoid(update, {product}, kUpdate, m);
           });
  });
}

/// h' = (1 - z) * n + z * h
bool match_mean(Match& m) {
  return either_order(*m.last, m, [&](ir::Value* of_candidate, ir::Value* of_state) {
    const ir::Node* fresh = take(of_candidate, {m.last}, op::mul_Tensor, m.nodes);
    const ir::Node* kept = take(of_state, {m.last}, op::mul_Tensor, m.nodes);
    return fresh != nullptr && kept != nullptr && either_order(*fresh, m, [&](ir::Value* rest, ir::Value* candidate) {
             const ir::Node* rsub = take(rest, {fresh}, op::rsub_Scalar, m.nodes);
             return rsub != nullptr && number_of(rsub->args()[1]) == 1.0 && is_plain(rsub) &&
                    either_order(*kept, m, [&](ir::Value* update, ir::Value* state) {
                      m.state = state;
                      return update != nullptr && update == rsub->args()[0].value() &&
                             take_candidate(candidate, {fresh}, m) && take_sigmoid(update, {rsub, kept}, kUpdate, m);
                    });
           });
  });
}

/// Rows of floats, as fits_state wants them of a product; constants have the type of the state.
bool fits_hidden(const Match& m, const ir::Program& program) {
  const ir::TensorType& state = m.last->result()->type.tensor;
  if (m.hidden.split != nullptr) {
    return m.constants == decltype(m.constants){} && fits_state(m.hidden, state);
  }
  return state.is_static() && std::all_of(m.constants.begin(), m.constants.end(), [&](const ir::Value* gate) {
           const ir::Constant* constant = constant_of(program, gate);
           return constant != nullptr && gate->type.tensor == state && constant->type == state;
         });
}

std::optional<Match> match(ir::Node* node, const ir::Program& program) {
  if (node->op != op::add_Tensor || !node->tag.empty() || !is_plain(node)) {
    return std::nullopt;
  }
  Match m;
  m.last = node;
  if (!match_difference(m) && !match_mean(m)) {
    return std::nullopt;
  }
  const ir::TensorType& state = node->result()->type.tensor;
  const bool fits =
      m.state != nullptr && m.state->type.tensor == state && fits_state(m.input, state) && fits_hidden(m, program);
  return fits ? std::optional(std::move(m)) : std::nullopt;
}

/// The gates of a first step, side by side.
ir::Value* joined_constants(const Match& m, ir::Program& program) {
  ir::TensorType type = m.constants[0]->type.tensor;
  const auto size = static_cast<size_t>(type.dims.back().max);
  const size_t rows = size == 0 ? 0 : static_cast<size_t>(type.numel()) / size;
  type.dims.back() = type.dims.back().max * static_cast<int64_t>(kGates);
  float* to = nullptr;
  ir::Constant joined = new_constant(std::move(type), &to);
  for (size_t i = 0; i < rows * kGates; ++i) {
    const auto* from = static_cast<const float*>(constant_of(program, m.constants[i % kGates])->data);
    std::copy_n(from + i / kGates * size, size, to + i * size);
  }
  return add_constant(program, *m.last->graph(), m.last->result()->name + "_gates", std::move(joined), m.last);
}

void fuse(const Match& m, ir::Program& program) {
  ir::Value* const input = dequantized(m.input, *m.last);
  ir::Value* const hidden = m.hidden.split == nullptr ? joined_constants(m, program) : dequantized(m.hidden, *m.last);
  ir::Node* fused = create_like(*m.last, op::et_gru_gates, {{input}, {hidden}, {m.state}});
  ir::Value* state = fused->add_result("state", m.last->result()->type);
  m.last->graph()->replace_all_uses(m.last->result(), state);
  std::swap(m.last->result()->name, state->name);
  StepNodes nodes = m.nodes;
  nodes.insert(nodes.begin(), m.last);
  erase_step(std::move(nodes), fused);
}

}  // namespace

PassInfo FuseGruGates::info() const {
  return PassInfo::extension("fuse-gru-gates", "Makes one operator of what a step of a GRU does with its gates");
}

Result<Changed> FuseGruGates::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    const std::optional<Match> found = match(node, context.program);
    if (found) {
      fuse(*found, context.program);
    }
    return found.has_value();
  });
}

}  // namespace et::passes
