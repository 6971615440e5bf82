#include "passes/recognise_norms.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ir/pattern.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

const ir::Pattern kLayerNorm = R"(
  y = cast?(biased, ...)
  biased = add?(middle, bias)
  middle = cast?(weighted, ...)
  weighted = mul?(first, weight)
  first = cast?(scaled, ...)
  scaled = div(factor, root) | mul(factor, inverse)
  inverse = rsqrt(shifted) | pow(shifted, -0.5) | reciprocal(root)
  root = sqrt(shifted) | pow(shifted, 0.5)
  shifted = add(variance, eps)
  variance = var(x, -1, correction=0, keepdim=1) | mean(square(z) | pow(z, 2) | mul(z, z), -1, keepdim=1, dtype=_)
  factor = mul?(z, early)
  z = sub(x, mean(x, -1, keepdim=1, dtype=_))
)";

const ir::Pattern kRmsNorm = R"(
  y = cast?(weighted, ...)
  weighted = mul?(first, weight)
  first = cast?(scaled, ...)
  scaled = div(factor, root) | mul(factor, inverse)
  inverse = rsqrt(shifted) | pow(shifted, -0.5) | reciprocal(root)
  root = sqrt(shifted) | pow(shifted, 0.5)
  shifted = add(variance, eps)
  variance = mean(square, -1, keepdim=1, dtype=_)
  square = square(x) | pow(x, 2) | mul(x, x)
  factor = mul?(z, early)
)";

const ir::Pattern kSoftmax = R"(
  y = div(e, sum(e, dim, keepdim=1, dtype=_))
  e = exp(difference)
  difference = sub(x, amax(x, dim, keepdim=1) | max.dim(x, dim, keepdim=1))
)";

const ir::TensorType& tensor(const ir::Match& m, std::string_view name) { return m.value(name)->type.tensor; }

bool are_tensors(const ir::Match& m) {
  return std::all_of(m.nodes.begin(), m.nodes.end(), [](const ir::Node* node) { return type_of(*node) != nullptr; });
}

/// The value before a cast from a float of 16 bits; the value itself otherwise.
ir::Value* before_cast(ir::Value* value) {
  const ir::Node* cast = producer_if({value}, {op::dim_order_ops_to_dim_order_copy, op::_to_copy});
  ir::Value* source = cast == nullptr ? nullptr : ops::ToCopy_(*cast).self().value();
  return source != nullptr && source->type.is_tensor() && is_small_float(source->type.tensor.dtype) &&
                 value->type.tensor.dtype == ScalarType::Float && source->type.tensor.dims == value->type.tensor.dims
             ? source
             : value;
}

/// No argument, or a vector with an element for each of the last dim.
bool is_parameter(const ir::Argument& argument, const ir::TensorType& type) {
  const ir::Value* value = argument.value();
  return argument.is_none() ||
         (value != nullptr && value->type.is_tensor() && value->type.tensor.rank() == 1 &&
          value->type.tensor.dims[0] == type.dims.back() && is_floating(value->type.tensor.dtype));
}

/// What both norms require of types, and at most one cast, which is that of x backwards. `x`: what the norm is of.
bool has_types_of_norm(const ir::Match& m, const ir::Program& program, bool has_bias, ir::Value** x) {
  if (!are_tensors(m) || m.value("x") == nullptr || !scalar_of(program, m["eps"])) {
    return false;
  }
  const ir::TensorType& type = tensor(m, "scaled");
  const ir::Value* last = m.value(has_bias ? "biased" : "weighted");
  const size_t casts = (m.value("y") != last) + (m.value("first") != m.value("scaled")) +
                       (has_bias && m.value("middle") != m.value("weighted"));
  *x = casts == 0 ? m.value("x") : before_cast(m.value("x"));
  const ir::TensorType& own = (*x)->type.tensor;
  return casts <= 1 && (casts == 0) == (*x == m.value("x")) && tensor(m, "x") == type && tensor(m, "y") == own &&
         type.rank() > 0 && own.is_row_major() && is_floating(own.dtype) && tensor(m, "variance").dtype == type.dtype &&
         tensor(m, "shifted") == tensor(m, "variance") && tensor(m, "weighted") == tensor(m, "first") &&
         (m["weight"].is_none() || m["early"].is_none()) && is_parameter(m["weight"], type) &&
         is_parameter(m["early"], type) && (m["early"].is_none() || tensor(m, "factor") == type);
}

/// The nodes, and the cast in front of them when nobody else reads it.
SpelledOut nodes_of(const ir::Match& m, const ir::Value* x) {
  SpelledOut found;
  found.root = m.root();
  found.nodes = m.nodes;
  const ir::Value* floats = m.value("x");
  const auto& users = floats->users();
  if (x != floats && floats->graph() == found.root->graph() && !floats->graph()->is_output(floats) &&
      std::all_of(users.begin(), users.end(), [&](const ir::Node* user) { return found.has(user); })) {
    found.add(floats->producer());
  }
  return found;
}

const ir::Argument& weight_of(const ir::Match& m) { return m["early"].is_none() ? m["weight"] : m["early"]; }

/// True for a parameter that is there and has another element type.
bool is_other(const ir::Argument& parameter, ScalarType dtype) {
  return parameter.is_value() && parameter.value()->type.tensor.dtype != dtype;
}

std::optional<SpelledOut> layer_norm(const ir::Match& m, const ir::Program& program, bool one_dtype) {
  ir::Value* x = nullptr;
  if (!has_types_of_norm(m, program, true, &x) || tensor(m, "biased") != tensor(m, "middle") ||
      !is_parameter(m["bias"], tensor(m, "scaled"))) {
    return std::nullopt;
  }
  const ir::TensorType& type = x->type.tensor;
  const ir::Argument& weight = weight_of(m);
  if (!type.dims.back().is_static() ||
      (one_dtype && (is_other(weight, type.dtype) || is_other(m["bias"], type.dtype)))) {
    return std::nullopt;
  }
  SpelledOut found = nodes_of(m, x);
  found.op = op::native_layer_norm;
  found.args = {{x}, {ir::Argument::List{{type.dims.back().min}}}, weight, m["bias"], {*scalar_of(program, m["eps"])}};
  std::vector<ir::Dim> dims = type.dims;
  dims.back() = ir::Dim(1);
  const ir::Type statistics = ir::Type::of(ir::TensorType::contiguous(type.dtype, std::move(dims)));
  found.unused = {statistics, statistics};
  return found;
}

std::optional<SpelledOut> rms_norm(const ir::Match& m, const ir::Program& program, bool) {
  ir::Value* x = nullptr;
  if (!has_types_of_norm(m, program, false, &x) ||
      (m.value("z") != m.value("x") && m.value("z") != before_cast(m.value("x")))) {
    return std::nullopt;
  }
  SpelledOut found = nodes_of(m, x);
  found.op = op::et_rms_norm;
  found.args = {{x}, weight_of(m), {*scalar_of(program, m["eps"])}};
  return found;
}

std::optional<SpelledOut> softmax(const ir::Match& m, const ir::Program&, bool) {
  const auto has_type_of_x = [&](std::string_view name) { return tensor(m, name) == tensor(m, "x"); };
  if (!are_tensors(m) || m.value("x") == nullptr || m["dim"].as<int64_t>() == nullptr || !has_type_of_x("y") ||
      !has_type_of_x("e") || !has_type_of_x("difference") || !is_floating(tensor(m, "x").dtype)) {
    return std::nullopt;
  }
  SpelledOut found;
  found.root = m.root();
  found.nodes = m.nodes;
  found.op = op::_softmax;
  found.args = {m["x"], m["dim"], {false}};
  return found;
}

/// Patterns, and what their matches become.
struct Row {
  const ir::Pattern& pattern;
  std::optional<SpelledOut> (*operator_of)(const ir::Match& match, const ir::Program& program, bool one_dtype);
};
constexpr Row kRows[] = {{kLayerNorm, layer_norm}, {kRmsNorm, rms_norm}, {kSoftmax, softmax}};

}  // namespace

std::optional<SpelledOut> spelled_out_norm(ir::Node& node, const ir::Program& program, bool one_dtype) {
  std::optional<SpelledOut> found;
  for (const Row& row : kRows) {
    const auto where = [&](const ir::Match& match) {
      found = row.operator_of(match, program, one_dtype);
      found = found && is_closed(*found) ? std::move(found) : std::nullopt;
      return found.has_value();
    };
    if (row.pattern.match(node, program, where)) {
      return found;
    }
  }
  return std::nullopt;
}

PassInfo RecogniseNorms::info() const {
  return {"recognise-norms", "Makes one operator of a layer norm, an RMS norm or a softmax that is spelled out"};
}

Result<Changed> RecogniseNorms::run(ir::Graph& graph, PassContext& context) {
  return replace_each(graph, context, [&](ir::Node& node) {
    return spelled_out_norm(node, context.program, context.options.compatible);
  });
}

}  // namespace et::passes
