#include "passes/recognise_activations.h"

#include <algorithm>
#include <cmath>

#include "ir/op_views.h"
#include "ir/pattern.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// log(1 + eˣ)
const ir::Pattern kSoftplus = "y = softplus(x, 1, 20) | log1p(exp(x)) | log(add(exp(x), 1))";

/// What polynomials are computed by.
bool is_power(std::string_view op) { return is_one_of(op, {op::square, op::pow_Tensor_Scalar, op::neg}); }
bool is_arithmetic(std::string_view op) {
  return is_one_of(op, {op::add_Tensor, op::add_Scalar, op::sub_Tensor, op::sub_Scalar, op::rsub_Scalar, op::mul_Tensor,
                        op::mul_Scalar, op::div_Tensor, op::div_Scalar});
}

constexpr size_t kPowers = 4;

/// Σ c[j][i] xⁱ tʲ, where x is what the activation is of and t its inner function.
struct Polynomial {
  double c[2][kPowers] = {};
};

Polynomial number(double value) {
  Polynomial p;
  p.c[0][0] = value;
  return p;
}

/// Nothing when terms cancel: of 1e9 x + x - 1e9 x the type keeps 0, and of x - x infinity makes NaN.
std::optional<Polynomial> sum(const Polynomial& a, const Polynomial& b, double factor) {
  constexpr double kLeast = 0.25;  // what has to be left of the larger term: two bits are lost at most
  Polynomial p = a;
  for (size_t j = 0; j < 2; ++j) {
    for (size_t i = 0; i < kPowers; ++i) {
      const double term = factor * b.c[j][i];
      p.c[j][i] += term;
      if (!(std::abs(p.c[j][i]) >= kLeast * std::max(std::abs(a.c[j][i]), std::abs(term)))) {
        return std::nullopt;
      }
    }
  }
  return p;
}

/// Nothing when a power would be too high, and of 0, which makes NaN of infinity.
std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial p;
  bool any = false;
  for (size_t j = 0; j < 4; ++j) {
    for (size_t i = 0; i < kPowers * kPowers; ++i) {
      const size_t ja = j / 2, jb = j % 2, ia = i / kPowers, ib = i % kPowers;
      const double term = a.c[ja][ia] * b.c[jb][ib];
      if (term == 0) {
        continue;
      }
      if (ja + jb > 1 || ia + ib >= kPowers) {
        return std::nullopt;
      }
      p.c[ja + jb][ia + ib] += term;
      any = true;
    }
  }
  return any ? std::optional(p) : std::nullopt;
}

/// One activation.
struct Row {
  std::string_view inner;  ///< operator of the inner function t
  bool of_softplus;        ///< t's argument is log(1 + eˣ), not a polynomial
  double low, high;        ///< of a clamp
  Polynomial argument;     ///< of t
  Polynomial whole;
  std::string_view op;
  const char* variant;      ///< gelu's `approximate`; nullptr: none
  bool any_factor = false;  ///< the argument is x times any number, which the operator takes; not in doubles, of which
                            ///< it has no fast kernel
};

constexpr double kRoot2OverPi = 0.79788456080286535588;
constexpr double kRootHalf = 0.70710678118654752440;
constexpr Polynomial kGelu{{{0, 0.5}, {0, 0.5}}};  // x / 2 + x t / 2
constexpr Polynomial kProduct{{{}, {0, 1}}};       // x t

constexpr Row kRows[] = {
    {op::tanh, false, 0, 0, {{{0, kRoot2OverPi, 0, 0.044715 * kRoot2OverPi}}}, kGelu, op::gelu, "tanh"},
    {op::erf, false, 0, 0, {{{0, kRootHalf}}}, kGelu, op::gelu, "none"},
    {op::sigmoid, false, 0, 0, {{{0, 1}}}, kProduct, op::silu, nullptr},
    {op::sigmoid, false, 0, 0, {}, kProduct, op::et_swish, nullptr, true},
    {op::tanh, true, 0, 0, {}, kProduct, op::mish, nullptr},
    {op::hardtanh, false, 0, 6, {{{3, 1}}}, {{{}, {0, 1.0 / 6}}}, op::hardswish, nullptr},
    {op::hardtanh, false, 0, 6, {{{3, 1}}}, {{{}, {1.0 / 6}}}, op::hardsigmoid, nullptr},
    {op::hardtanh, false, 0, 1, {{{0.5, 1.0 / 6}}}, kProduct, op::hardswish, nullptr},
    {op::hardtanh, false, 0, 1, {{{0.5, 1.0 / 6}}}, {{{}, {1}}}, op::hardsigmoid, nullptr},
};

/// Numbers that are one number in the type that is computed in.
bool is_close(double a, double b, ScalarType dtype) {
  constexpr double kFloat = 6e-8, kDouble = 1e-15;
  return std::abs(a - b) <= (dtype == ScalarType::Double ? kDouble : kFloat) * std::abs(b);
}

bool is_close(const Polynomial& a, const Polynomial& b, ScalarType dtype) {
  for (size_t j = 0; j < 2; ++j) {
    for (size_t i = 0; i < kPowers; ++i) {
      if (!is_close(a.c[j][i], b.c[j][i], dtype)) {
        return false;
      }
    }
  }
  return true;
}

/// True for x times a number that is finite and not 0 as a float, which it may not be where several were multiplied.
bool is_multiple(const Polynomial& p) {
  Polynomial own;
  own.c[0][1] = p.c[0][1];
  return std::isnormal(static_cast<float>(p.c[0][1])) && is_close(p, own, ScalarType::Double);
}

/// Reads expressions of x and t, and remembers the nodes that they are made of.
class Reader {
 public:
  Reader(const ir::Program& program, const ir::Graph& graph, const ir::Value* x, const ir::Value* t)
      : program_(program), graph_(graph), x_(x), t_(t) {}

  std::optional<Polynomial> read(const ir::Argument& argument) {
    const ir::Value* value = argument.value();
    if (value != nullptr && value == x_) {
      return Polynomial{{{0, 1}}};
    }
    if (value != nullptr && value == t_) {
      return Polynomial{{{}, {1}}};
    }
    if (const std::optional<double> literal = scalar_of(program_, argument)) {
      return number(*literal);
    }
    ir::Node* node = value == nullptr ? nullptr : value->producer();
    if (node == nullptr || node->graph() != &graph_ || nodes.size() > kMaxNodes || !type_of(*node) ||
        *type_of(*node) != x_->type.tensor) {
      return std::nullopt;
    }
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) {
      nodes.push_back(node);
    }
    return read(*node);
  }

  std::vector<ir::Node*> nodes;

 private:
  static constexpr size_t kMaxNodes = 16;

  std::optional<Polynomial> read(const ir::Node& node) {
    const auto& args = node.args();
    if (is_power(node.op)) {
      const double exponent = args.size() > 1 ? number_of(ops::PowTensorScalar(node).exponent()).value_or(0) : 2;
      const std::optional<Polynomial> base = read(args[0]);
      if (node.op == op::neg) {
        return base ? sum({}, *base, -1) : std::nullopt;
      }
      std::optional<Polynomial> power = exponent == 1 || exponent == 2 || exponent == 3 ? base : std::nullopt;
      for (int i = 1; power && i < static_cast<int>(exponent); ++i) {
        power = product(*power, *base);
      }
      return power;
    }
    if (!is_arithmetic(node.op)) {
      return std::nullopt;
    }
    const ops::AddTensor call(node);
    const std::optional<Polynomial> a = read(call.self());
    const std::optional<Polynomial> b = a ? read(call.other()) : std::nullopt;
    if (!b) {
      return std::nullopt;
    }
    if (is_one_of(node.op, {op::mul_Tensor, op::mul_Scalar})) {
      return product(*a, *b);
    }
    if (is_one_of(node.op, {op::div_Tensor, op::div_Scalar})) {
      const std::optional<double> divisor = scalar_of(program_, call.other());
      return divisor && *divisor != 0 ? sum({}, *a, 1 / *divisor) : std::nullopt;
    }
    const std::optional<double> alpha = number_of(call.alpha());
    if (!alpha) {
      return std::nullopt;
    }
    return node.op == op::rsub_Scalar                             ? sum(*b, *a, -*alpha)
           : is_one_of(node.op, {op::add_Tensor, op::add_Scalar}) ? sum(*a, *b, *alpha)
                                                                  : sum(*a, *b, -*alpha);
  }

  const ir::Program& program_;
  const ir::Graph& graph_;  ///< of the nodes; x may be from one around it
  const ir::Value* x_;
  const ir::Value* t_;
};

/// Values that an expression may be a polynomial of: it, and those of its type that it is made of, the nearest first.
std::vector<ir::Value*> candidates(const ir::Argument& argument) {
  constexpr size_t kMost = 12;
  std::vector<ir::Value*> values;
  if (argument.value() != nullptr && argument.value()->type.is_tensor()) {
    values.push_back(argument.value());
  }
  for (size_t i = 0; i < values.size() && values.size() < kMost; ++i) {
    const ir::Node* node = values[i]->producer();
    if (node == nullptr || (!is_power(node->op) && !is_arithmetic(node->op))) {
      continue;
    }
    node->for_each_input([&](ir::Value* input) {
      if (input->type.is_tensor() && input->type.tensor == values[0]->type.tensor &&
          std::find(values.begin(), values.end(), input) == values.end()) {
        values.push_back(input);
      }
    });
  }
  return values;
}

/// Goes from the inner function along the only users, and takes the last expression that is the row's.
std::optional<SpelledOut> climb(const Row& row, ir::Node& inner, ir::Value* x, const std::vector<ir::Node*>& below,
                                const ir::Program& program) {
  constexpr int kMostSteps = 6;
  std::optional<SpelledOut> best;
  ir::Node* at = &inner;
  for (int i = 0; at != nullptr && i < kMostSteps; ++i, at = only_user(at->result())) {
    Reader reader(program, *inner.graph(), x, inner.result());
    const std::optional<Polynomial> whole = at->results().size() == 1 ? reader.read({at->result()}) : std::nullopt;
    if (!whole) {
      break;
    }
    if (!is_close(*whole, row.whole, x->type.tensor.dtype)) {
      continue;
    }
    SpelledOut found;
    found.root = at;
    found.op = row.op;
    found.args = {{x}};
    if (row.variant != nullptr) {
      found.args.push_back({std::string(row.variant)});
    }
    found.add(&inner);
    for (ir::Node* node : below) {
      found.add(node);
    }
    for (ir::Node* node : reader.nodes) {
      found.add(node);
    }
    best = is_closed(found) ? std::optional(std::move(found)) : best;
  }
  return best;
}

/// The row's name of an operator; clamps are all one.
std::string_view inner_name(const ir::Node& node) {
  return node.op == op::clamp ? op::hardtanh : std::string_view(node.op);
}

bool has_bounds(const ir::Node& node, const Row& row) {
  if (row.low == row.high) {
    return true;
  }
  return number_of(ops::Hardtanh(node).min_val()) == row.low && number_of(ops::Hardtanh(node).max_val()) == row.high;
}

}  // namespace

std::optional<SpelledOut> spelled_out_activation(ir::Node& node, const ir::Program& program) {
  std::optional<SpelledOut> best;
  const std::string_view name = inner_name(node);
  for (const Row& row : kRows) {
    if (row.inner != name || !has_bounds(node, row)) {
      continue;
    }
    std::vector<ir::Node*> below;
    std::vector<ir::Value*> values;
    if (!row.of_softplus) {
      values = candidates(node.args()[0]);
    } else if (const std::optional<ir::Match> softplus = kSoftplus.match_producer(node.args()[0], program)) {
      below = softplus->nodes;
      values = {softplus->value("x")};
    }
    for (ir::Value* x : values) {
      const ir::TensorType* type = type_of(node);
      if (x == nullptr || !x->type.is_tensor() || type == nullptr || *type != x->type.tensor ||
          !is_floating(type->dtype)) {
        continue;
      }
      double factor = 1;
      if (!row.of_softplus) {
        Reader reader(program, *node.graph(), x, nullptr);
        const std::optional<Polynomial> argument = reader.read(node.args()[0]);
        if (!argument || !(row.any_factor ? is_multiple(*argument) && type->dtype != ScalarType::Double
                                          : is_close(*argument, row.argument, type->dtype))) {
          continue;
        }
        factor = argument->c[0][1];
        below = reader.nodes;
      }
      std::optional<SpelledOut> found = climb(row, node, x, below, program);
      if (found && row.any_factor) {
        found->args.push_back({factor});
      }
      if (found && (!best || found->nodes.size() > best->nodes.size())) {
        best = std::move(found);
      }
    }
  }
  return best;
}

PassInfo RecogniseActivations::info() const {
  return {"recognise-activations", "Makes one operator of GELU, SiLU, mish or hardswish that is spelled out"};
}

Result<Changed> RecogniseActivations::run(ir::Graph& graph, PassContext& context) {
  return replace_each(graph, context, [&](ir::Node& node) { return spelled_out_activation(node, context.program); });
}

}  // namespace et::passes
