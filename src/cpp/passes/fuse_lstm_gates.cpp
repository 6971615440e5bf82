#include "passes/fuse_lstm_gates.h"

#include "passes/quantized_values.h"

namespace et::passes {
namespace {

enum Gate : size_t { kIn, kForget, kCandidate, kOut, kGates };

/// What a step is made of.
struct Match {
  ir::Node* hidden = nullptr;  ///< the product that is h'
  ir::Node* cell = nullptr;    ///< the sum that is c'
  ir::Value* before = nullptr;
  ir::Node* split = nullptr;
  ir::Node* dequantize = nullptr;  ///< of one part; nullptr where floats are split
  std::vector<ir::Node*> chain;    ///< from h' to the split, users first; each is used here only
};

/// Adds the node that made a value to the chain, if it has this name and nobody but `user` reads it; nullptr otherwise.
ir::Node* take(ir::Value* value, const ir::Node* user, std::string_view op, Match& m) {
  ir::Node* node = value == nullptr ? nullptr : value->producer();
  if (node == nullptr || node->op != op || !node->tag.empty() || node->graph() != m.hidden->graph() ||
      !is_only_use(value, user)) {
    return nullptr;
  }
  m.chain.push_back(node);
  return node;
}

/// True when `value` is `function` of one of the gates.
bool take_gate(ir::Value* value, const ir::Node* user, std::string_view function, Gate gate, Match& m) {
  ir::Node* node = take(value, user, function, m);
  if (node == nullptr) {
    return false;
  }
  value = node->args()[0].value();
  if (value == nullptr || value->type.tensor.dtype != ScalarType::Float) {
    return false;  // functions take integers as well, whatever the other gates are made of
  }
  if (ir::Node* dequantize = take(value, node, kDequantizePerTensor, m); dequantize != nullptr) {
    const std::optional<Activation> part = affine_of(*dequantize);
    const std::optional<Activation> other = m.dequantize == nullptr ? part : affine_of(*m.dequantize);
    if (!part || !other || !part->same_parameters(*other)) {
      return false;
    }
    m.dequantize = dequantize;
    node = dequantize;
    value = dequantize->args()[0].value();
  }
  ir::Node* split = value->producer();
  const bool is_split = split != nullptr && is_one_of(split->op, {"aten::split_copy.Tensor", "aten::split.Tensor"}) &&
                        split->tag.empty() && split->results().size() == kGates && split->graph() == node->graph();
  if (!is_split || split->result(gate) != value || !is_only_use(value, node) ||
      (m.split != nullptr && m.split != split)) {
    return false;
  }
  m.split = split;
  return true;
}

/// Tries both orders of a product's factors; what a wrong order took is forgotten.
template <typename Try>
bool either_order(const ir::Node& product, Match& m, Try&& attempt) {
  const Match before = m;
  for (size_t first = 0; first < 2; ++first) {
    if (attempt(product.args()[first].value(), product.args()[1 - first].value())) {
      return true;
    }
    m = before;
  }
  return false;
}

/// c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
bool match_cell(Match& m) {
  return number_of(m.cell->args()[2]) == 1.0 && either_order(*m.cell, m, [&](ir::Value* kept, ir::Value* added) {
           ir::Node* keep = take(kept, m.cell, "aten::mul.Tensor", m);
           ir::Node* add = take(added, m.cell, "aten::mul.Tensor", m);
           return keep != nullptr && add != nullptr &&
                  either_order(*keep, m,
                               [&](ir::Value* gate, ir::Value* old) {
                                 m.before = old;
                                 return old != nullptr && take_gate(gate, keep, "aten::sigmoid", kForget, m);
                               }) &&
                  either_order(*add, m, [&](ir::Value* gate, ir::Value* candidate) {
                    return take_gate(gate, add, "aten::sigmoid", kIn, m) &&
                           take_gate(candidate, add, "aten::tanh", kCandidate, m);
                  });
         });
}

/// Rows of floats, the gates of a row side by side.
bool has_fitting_types(const Match& m) {
  const ir::TensorType& gates = m.split->args()[0].value()->type.tensor;
  const ir::TensorType& cell = m.before->type.tensor;
  const ir::TensorType& result = m.cell->result()->type.tensor;
  const auto dim = int_of(m.split->args()[2]);
  const auto rank = static_cast<int64_t>(gates.rank());
  const bool is_last = dim && rank > 0 && (*dim == -1 || *dim == rank - 1);
  const ir::TensorType& part = m.split->result(0)->type.tensor;
  return is_last && result.dtype == ScalarType::Float && gates.is_row_major() && result.is_row_major() &&
         cell == result && m.hidden->result()->type.tensor == result && part.dims == result.dims &&
         result.dims.back().is_static() && m.split->result(kGates - 1)->type.tensor == part &&
         (m.dequantize != nullptr || gates.dtype == ScalarType::Float);
}

std::optional<Match> match(ir::Node* node) {
  Match m;
  m.hidden = node;
  if (node->op != "aten::mul.Tensor" || !node->tag.empty()) {
    return std::nullopt;
  }
  const bool found = either_order(*node, m, [&](ir::Value* gate, ir::Value* squashed) {
    ir::Node* tanh = take(squashed, node, "aten::tanh", m);
    m.cell = tanh == nullptr ? nullptr : tanh->args()[0].value()->producer();
    return m.cell != nullptr && m.cell->op == "aten::add.Tensor" && m.cell->tag.empty() &&
           m.cell->graph() == node->graph() && take_gate(gate, node, "aten::sigmoid", kOut, m) && match_cell(m);
  });
  return found && has_fitting_types(m) ? std::optional(std::move(m)) : std::nullopt;
}

void fuse(const Match& m) {
  ir::Graph& graph = *m.hidden->graph();
  ir::Value* gates = m.split->args()[0].value();
  // Everything that reads c' comes behind it, and so does what takes its place: it stands where c' was computed.
  if (m.dequantize != nullptr) {
    std::vector<ir::Argument> args = m.dequantize->args();
    args[0] = {gates};
    ir::TensorType type = gates->type.tensor;
    type.dtype = ScalarType::Float;
    ir::Node* whole = create_like(*m.cell, m.dequantize->op, std::move(args));
    gates = whole->add_result(gates->name + "_gates", ir::Type::of(type));
  }
  ir::Node* fused = create_like(*m.cell, "et::lstm_gates", {{gates}, {m.before}});
  ir::Value* hidden = fused->add_result("hidden", m.hidden->result()->type);
  ir::Value* cell = fused->add_result("cell", m.cell->result()->type);
  graph.replace_all_uses(m.hidden->result(), hidden);
  graph.replace_all_uses(m.cell->result(), cell);
  std::swap(m.hidden->result()->name, hidden->name);
  std::swap(m.cell->result()->name, cell->name);
  const auto drop = [&](ir::Node* node) {
    fused->absorb(*node);
    graph.erase(node);
  };
  drop(m.hidden);
  bool is_cell_left = true;
  for (ir::Node* node : m.chain) {
    if (is_cell_left && node->op == "aten::mul.Tensor") {  // a factor of c', which goes before them
      drop(m.cell);
      is_cell_left = false;
    }
    drop(node);
  }
  drop(m.split);
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
