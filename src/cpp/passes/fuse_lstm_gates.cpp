#include "passes/fuse_lstm_gates.h"

#include "ops/names.h"
#include "passes/step_gates.h"

namespace et::passes {
namespace {

enum Gate : size_t { kIn, kForget, kCandidate, kOut, kGates };

/// What a step is made of.
struct Match {
  ir::Node* hidden = nullptr;  ///< the product that is h'
  ir::Node* cell = nullptr;    ///< the sum that is c'
  ir::Value* before = nullptr;
  GateSums sums{kGates};
  StepNodes nodes;
};

/// True when `value` is `function` of one of the gates.
bool take_function(ir::Value* value, const ir::Node* user, std::string_view function, Gate gate, Match& m) {
  const ir::Node* node = take(value, {user}, function, m.nodes);
  return node != nullptr && take_gate(node->args()[0].value(), node, gate, m.sums, m.nodes);
}

/// c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
bool match_cell(Match& m) {
  return number_of(m.cell->args()[2]) == 1.0 && either_order(*m.cell, m, [&](ir::Value* kept, ir::Value* added) {
           ir::Node* keep = take(kept, {m.cell}, op::mul_Tensor, m.nodes);
           ir::Node* add = take(added, {m.cell}, op::mul_Tensor, m.nodes);
           return keep != nullptr && add != nullptr &&
                  either_order(*keep, m,
                               [&](ir::Value* gate, ir::Value* old) {
                                 m.before = old;
                                 return old != nullptr && take_function(gate, keep, op::sigmoid, kForget, m);
                               }) &&
                  either_order(*add, m, [&](ir::Value* gate, ir::Value* candidate) {
                    return take_function(gate, add, op::sigmoid, kIn, m) &&
                           take_function(candidate, add, op::tanh, kCandidate, m);
                  });
         });
}

std::optional<Match> match(ir::Node* node) {
  Match m;
  m.hidden = node;
  if (node->op != op::mul_Tensor || !node->tag.empty()) {
    return std::nullopt;
  }
  const bool found = either_order(*node, m, [&](ir::Value* gate, ir::Value* squashed) {
    const ir::Node* tanh = take(squashed, {node}, op::tanh, m.nodes);
    m.cell = tanh == nullptr ? nullptr : tanh->args()[0].value()->producer();
    return m.cell != nullptr && m.cell->op == op::add_Tensor && m.cell->tag.empty() &&
           m.cell->graph() == node->graph() && take_function(gate, node, op::sigmoid, kOut, m) && match_cell(m);
  });
  if (!found) {
    return std::nullopt;
  }
  const ir::TensorType& state = m.cell->result()->type.tensor;
  const bool fits = m.before->type.tensor == state && m.hidden->result()->type.tensor == state;
  return fits && fits_state(m.sums, state) ? std::optional(std::move(m)) : std::nullopt;
}

void fuse(const Match& m) {
  ir::Graph& graph = *m.hidden->graph();
  // Everything that reads c' comes behind it, and so does what takes its place: it stands where c' was computed.
  ir::Value* const gates = dequantized(m.sums, *m.cell);
  ir::Node* fused = create_like(*m.cell, op::et_lstm_gates, {{gates}, {m.before}});
  ir::Value* hidden = fused->add_result("hidden", m.hidden->result()->type);
  ir::Value* cell = fused->add_result("cell", m.cell->result()->type);
  graph.replace_all_uses(m.hidden->result(), hidden);
  graph.replace_all_uses(m.cell->result(), cell);
  std::swap(m.hidden->result()->name, hidden->name);
  std::swap(m.cell->result()->name, cell->name);
  StepNodes nodes = m.nodes;
  nodes.insert(nodes.begin(), {m.hidden, m.cell});
  erase_step(std::move(nodes), fused);
}

}  // namespace

PassInfo FuseLstmGates::info() const {
  return PassInfo::extension("fuse-lstm-gates", "Makes one operator of what a step of an LSTM does with its gates");
}

Result<Changed> FuseLstmGates::run(ir::Graph& graph, PassContext&) {
  return rewrite_each(graph, [](ir::Node* node) {
    const std::optional<Match> found = match(node);
    if (found) {
      fuse(*found);
    }
    return found.has_value();
  });
}

}  // namespace et::passes
