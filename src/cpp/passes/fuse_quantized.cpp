#include "passes/fuse_quantized.h"

#include <algorithm>
#include <cmath>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/clamps.h"
#include "passes/quantized_products.h"
#include "passes/quantized_values.h"

namespace et::passes {
namespace {

using Arguments = std::vector<ir::Argument>;

/// A bound as an integer of the result (docs/reference/numerics.md).
int64_t bound_of(double value, const Activation& result) {
  const float units =
      static_cast<float>(value) / static_cast<float>(result.scale) + static_cast<float>(result.zero_point);
  const float bounded =
      std::min(std::max(units, static_cast<float>(result.quant_min)), static_cast<float>(result.quant_max));
  return std::lrint(bounded);
}

/// A float node with the affine parameters of its result, and the operator that computes the same on integers.
struct Candidate {
  ir::Program& program;
  ir::Node& node;
  const ops::OpInfo& floats;
  const ops::OpInfo& integers;
  Activation result;
  Clamp clamp;
};

bool has_argument(const ops::OpInfo& op, std::string_view name) {
  return std::any_of(op.arguments.begin(), op.arguments.end(), [&](const auto& one) { return one.name == name; });
}

/// The node's own argument with this name.
const ir::Argument& own_argument(const Candidate& c, std::string_view name) {
  const auto found = std::find_if(c.floats.arguments.begin(), c.floats.arguments.end(),
                                  [&](const ops::Argument& one) { return one.name == name; });
  return c.node.args()[static_cast<size_t>(found - c.floats.arguments.begin())];
}

/// How the integers of an argument, or of the output, are meant; nothing where they have not the result's type.
std::optional<Activation> activation(const Candidate& c, std::string_view name) {
  const std::optional<Activation> found = name == "output" ? c.result : activation_of(own_argument(c, name));
  return found && found->dtype == c.result.dtype ? found : std::nullopt;
}

/// How many times as large as a mean of the input the result is, which a sum becomes; nothing where that is not known.
std::optional<double> times_mean(const ir::Node& node) {
  if (node.op != op::sum_dim_IntList) {
    return 1;
  }
  const ir::TensorType &in = node.args()[0].value()->type.tensor, &out = node.result()->type.tensor;
  return in.is_static() && out.numel() > 0 ? std::optional(static_cast<double>(in.numel() / out.numel()))
                                           : std::nullopt;
}

/// `name` without the ending; empty where it has another one.
std::string_view before(std::string_view name, std::string_view ending) {
  const size_t n = name.size() - std::min(name.size(), ending.size());
  return name.substr(n) == ending ? name.substr(0, n) : std::string_view();
}

/// The argument of the integer operator that has this name (ops::OpInfo::integers).
std::optional<ir::Argument> integer_argument(const Candidate& c, const std::optional<ProductConstants>& product,
                                             const ops::Argument& wanted) {
  const std::string_view name = wanted.name;
  if (product && (name == "weight" || name == "weight_scales" || name == "bias")) {
    return name == "weight" ? product->weight : name == "bias" ? product->bias : product->scales;
  }
  if (name == "output_min" || name == "output_max") {
    return {{bound_of(name == "output_min" ? c.clamp.min : c.clamp.max, c.result)}};
  }
  const std::string_view scaled = before(name, "_scale"), shifted = before(name, "_zero_point");
  if (!scaled.empty() || !shifted.empty() || has_argument(c.integers, std::string(name) + "_scale")) {
    const std::optional<Activation> found = activation(c, !scaled.empty() ? scaled : !shifted.empty() ? shifted : name);
    const std::optional<double> times = scaled == "self" ? times_mean(c.node) : 1;
    if (!found || !times) {
      return std::nullopt;
    }
    return !scaled.empty()    ? ir::Argument{found->scale * *times}
           : !shifted.empty() ? ir::Argument{found->zero_point}
                              : ir::Argument{found->integers};
  }
  const ir::Argument& own = own_argument(c, name);
  return own.is_none() && wanted.type.back() != '?' ? std::nullopt : std::optional(own);
}

/// Whether what the integer operator does not know is as if it was not given.
bool has_only_known_arguments(const Candidate& c) {
  for (size_t i = 0; i < c.floats.arguments.size(); ++i) {
    const ops::Argument& formal = c.floats.arguments[i];
    const std::string_view otherwise = formal.has_default() ? formal.default_text : std::string_view("False");
    if (!has_argument(c.integers, formal.name) && !ir::is_default(c.node.args()[i], otherwise)) {
      return false;
    }
  }
  return true;
}

std::optional<Arguments> integer_arguments(const Candidate& c) {
  if (!c.integers.supports(c.result.dtype) || !has_only_known_arguments(c)) {
    return std::nullopt;
  }
  std::optional<ProductConstants> product;
  if (has_argument(c.integers, "weight_scales")) {
    const std::optional<Activation> input = activation(c, "input");
    product = input ? product_constants(c.program, c.node, static_cast<float>(input->scale)) : std::nullopt;
    if (!product) {
      return std::nullopt;
    }
  }
  Arguments args;
  for (const ops::Argument& wanted : c.integers.arguments) {
    std::optional<ir::Argument> argument = integer_argument(c, product, wanted);
    if (!argument) {
      return std::nullopt;
    }
    args.push_back(*std::move(argument));
  }
  return args;
}

/// Puts `op` in the place of `quantize`. `computed`: what it computes, from the last to the first; nodes that nobody
/// else reads go, and it takes over their handles.
void replace_quantize(ir::Node* quantize, std::string_view op, Arguments args, std::vector<ir::Node*> computed) {
  ir::Node* created = create_like(*quantize, op, std::move(args));
  if (!computed.empty()) {
    created->source = computed.back()->source;
  }
  created->add_result(quantize->result()->name, quantize->result()->type);
  replace_node(quantize, created);
  erase_unread(std::move(computed), created);
}

/// The untagged node whose result `reader` alone reads, as its first argument; or nullptr.
ir::Node* read_alone(const ir::Node& reader) {
  const ir::Value* const value = reader.args()[0].value();
  ir::Node* const node = value == nullptr ? nullptr : value->producer();
  const auto is_first_or_unused = [&](const auto& result) {  // a layer norm has its statistics, too
    return result.get() == node->result() || node->graph()->is_unused(result.get());
  };
  const bool fits = node != nullptr && node->graph() == reader.graph() && node->tag.empty() &&
                    std::all_of(node->results().begin(), node->results().end(), is_first_or_unused) &&
                    is_only_use(node->result(), &reader);
  return fits ? node : nullptr;
}

/// One operator with an integer form (ops::OpInfo::integers), then clamps, then `quantize`.
bool fuse_operator(ir::Program& program, ir::Node* quantize, const Activation& result) {
  Clamp clamp;
  std::vector<ir::Node*> computed = {read_alone(*quantize)};
  for (; computed.back() != nullptr; computed.push_back(read_alone(*computed.back()))) {
    const std::optional<Clamp> own = clamp_of(*computed.back());
    if (!own) {
      break;
    }
    clamp = own->then(clamp);
  }
  const ops::OpInfo* const floats = computed.back() == nullptr ? nullptr : ops::find_op(computed.back()->op);
  const ops::OpInfo* const integers = floats == nullptr ? nullptr : ops::find_op(floats->integers);
  if (integers == nullptr) {
    return false;
  }
  std::optional<Arguments> args = integer_arguments({program, *computed.back(), *floats, *integers, result, clamp});
  if (args) {
    replace_quantize(quantize, integers->name, std::move(*args), std::move(computed));
  }
  return args.has_value();
}

// ------------------------------------------------------------------------------------------------------------- tables

/// The one tensor that a pointwise operator computes from, by its position; nothing when there are several, or
/// operators and constants that the table's entries do not fit into.
std::optional<size_t> single_input(const ir::Program& program, const ir::Node& node) {
  const ops::OpInfo* op = ops::find_op(node.op);
  if (op == nullptr || !op->has_tag(ops::kPointwise) || op->has_tag(ops::kRandom) || !op->has_out_variant() ||
      node.results().size() != 1) {
    return std::nullopt;
  }
  std::optional<size_t> found;
  for (size_t i = 0; i < node.args().size(); ++i) {
    const ir::Argument& argument = node.args()[i];
    if (argument.as<ir::Argument::List>() != nullptr) {
      return std::nullopt;
    }
    const ir::Constant* constant = constant_of(program, argument);
    const bool is_number = constant != nullptr && constant->type.rank() <= 1 && constant->type.numel() == 1;
    if (argument.is_value() && !is_number) {
      if (found || !argument.value()->type.is_tensor()) {
        return std::nullopt;
      }
      found = i;
    }
  }
  return found;
}

/// A graph of its own that computes a chain of nodes for all 256 integers of 8 bits, or for 513 of 16 bits.
class Tabulation {
 public:
  Tabulation(const ir::Program& program, ConstantEvaluator& evaluator) : program_(program), evaluator_(evaluator) {}

  /// Integers of 16 bits are floats from the start: the last of 513 is beyond their range.
  void start_16_bits(const Activation& source) {
    count_ = kPoints;
    float* data = nullptr;
    ir::Constant all = new_constant(ir::TensorType::contiguous(ScalarType::Float, {kPoints}), &data);
    for (int64_t i = 0; i < kPoints; ++i) {
      data[i] = static_cast<float>((i << 7) - 32768 - source.zero_point) * static_cast<float>(source.scale);
    }
    value_ = add(std::move(all));
  }
  void start(ScalarType dtype) {
    uint8_t* data = nullptr;
    ir::Constant all = new_constant(ir::TensorType::contiguous(dtype, {256}), &data);
    for (unsigned i = 0; i < 256; ++i) {
      data[i] = static_cast<uint8_t>(dtype == ScalarType::Char ? i + 128 : i);  // the smallest integer first
    }
    value_ = add(std::move(all));
  }

  /// value = node(value), with the value as argument `input`.
  bool apply(const ir::Node& node, size_t input) {
    Arguments args = node.args();
    const ops::OpInfo* op = ops::find_op(node.op);
    for (size_t i = 0; i < args.size(); ++i) {
      if (i == input) {
        args[i] = {value_};
      } else if (const ir::Constant* constant = constant_of(program_, args[i])) {
        args[i] = {add(*constant)};
      } else if (const auto number = number_of(args[i]); number && op->arguments[i].letter == 'T') {
        float* data = nullptr;  // x * 2
        ir::Constant lifted = new_constant(ir::TensorType::contiguous(ScalarType::Float, {}), &data);
        *data = static_cast<float>(*number);
        args[i] = {add(std::move(lifted))};
      }
    }
    ir::Node* step = graph_.create_node(node.op, std::move(args));
    step->add_result("step", ir::Type::of(ir::TensorType::contiguous(node.result()->type.tensor.dtype, {count_})));
    std::vector<ir::Constant> results;
    if (evaluator_.evaluate(*step, constants_, &results) != Error::Ok || results.size() != 1) {
      return false;
    }
    value_ = add(std::move(results.front()));
    return true;
  }

  const ir::Constant& result() const { return constants_.find(value_->producer()->symbol)->second; }

 private:
  ir::Value* add(ir::Constant constant) {
    ir::Node* node = graph_.create_node("constant", {});
    node->symbol = std::to_string(constants_.size());
    ir::Value* value = node->add_result("value", ir::Type::of(constant.type));
    constants_.emplace(node->symbol, std::move(constant));
    return value;
  }

  static constexpr int64_t kPoints = 513;

  const ir::Program& program_;
  ConstantEvaluator& evaluator_;
  int64_t count_ = 256;
  ir::Graph graph_{"table"};
  ir::ConstantTable constants_;
  ir::Value* value_ = nullptr;
};

/// Products with numbers and clamps, from the last node to the first, as another scale and range of integers. Their
/// table would be one straight line.
bool fuse_scaling(const ir::Program& program, const std::vector<std::pair<ir::Node*, size_t>>& chain,
                  const Activation& result) {
  ir::Node *const quantize = chain.front().first, *const dequantize = chain.back().first;
  double times = 1;
  Clamp clamp;
  std::vector<ir::Node*> computed;
  for (auto step = chain.rbegin() + 1; step != chain.rend() - 1; ++step) {
    if (const std::optional<double> factor = factor_of(program, *step->first, step->second)) {
      times *= *factor;
      clamp = {clamp.min * *factor, clamp.max * *factor};
    } else if (const std::optional<Clamp> own = clamp_of(*step->first)) {
      clamp = clamp.then(*own);
    } else {
      return false;
    }
    computed.insert(computed.begin(), step->first);
  }
  Arguments from = dequantize->args(), to = quantize->args();
  from[1] = {*number_of(from[1]) * times};
  ir::Node* scaled = create_like(*dequantize, kDequantizePerTensor, std::move(from));
  scaled->add_result(quantize->result()->name + "_scaled", dequantize->result()->type);
  to[0] = {scaled->result()};
  to[3] = {bound_of(clamp.min, result)};
  to[4] = {bound_of(clamp.max, result)};
  replace_quantize(quantize, kQuantizePerTensor, std::move(to), std::move(computed));
  return true;
}

/// Whether the lines of a table of 16 bits rise and fall by at most 16 bits.
bool has_slopes_of_16_bits(const ir::Constant& table) {
  const auto* const points = static_cast<const int16_t*>(table.data);
  return std::adjacent_find(points, points + table.type.numel(), [](int32_t a, int32_t b) {
           return b - a < INT16_MIN || b - a > INT16_MAX;
         }) == points + table.type.numel();
}

/// Pointwise operators of one tensor between a dequantize and `quantize`, as a table.
bool fuse_table(PassContext& context, ir::Node* quantize, const Activation& result) {
  const size_t size = element_size(result.dtype);
  const bool has_lines = result.dtype == ScalarType::Short && context.tabulate_16_bits;
  if (context.evaluator == nullptr || (size != 1 && !has_lines)) {
    return false;
  }
  std::vector<std::pair<ir::Node*, size_t>> chain = {{quantize, 0}};  // from the last to the first, with their inputs
  ir::Value* value = Quantize(*quantize).input().value();
  const ir::TensorType shape = quantize->result()->type.tensor;
  ir::Node* node = value->producer();
  for (; node != nullptr && node->op != kDequantizePerTensor; node = value->producer()) {
    const std::optional<size_t> input = single_input(context.program, *node);
    if (!input || node->tag != quantize->tag || node->graph() != quantize->graph() ||
        node->result()->type.tensor.dims != shape.dims) {
      return false;
    }
    chain.emplace_back(node, *input);
    value = node->args()[*input].value();
  }
  const std::optional<Activation> source =
      node == nullptr || node->tag != quantize->tag ? std::nullopt : affine_of(*node);
  if (!source || element_size(source->dtype) != size || source->integers->type.tensor.dims != shape.dims ||
      ((has_lines || source->same_parameters(result)) && chain.size() == 1)) {
    return false;
  }
  chain.emplace_back(node, 0);
  if (has_lines && fuse_scaling(context.program, chain, result)) {
    return true;
  }
  Tabulation table(context.program, *context.evaluator);
  if (has_lines) {
    table.start_16_bits(*source);
    chain.pop_back();
  } else {
    table.start(source->dtype);
  }
  for (auto step = chain.rbegin(); step != chain.rend(); ++step) {
    if (!table.apply(*step->first, step->second)) {
      return false;
    }
  }
  if (has_lines && !has_slopes_of_16_bits(table.result())) {
    return false;
  }
  ir::Value* entries =
      add_constant(context.program, *quantize->graph(), quantize->result()->name + "_table", table.result(), quantize);
  std::vector<ir::Node*> computed;
  for (size_t i = 1; i < chain.size() && chain[i].first->op != kDequantizePerTensor; ++i) {
    computed.push_back(chain[i].first);
  }
  replace_quantize(quantize, op::et_quantized_table, {{source->integers}, {entries}}, computed);
  return true;
}

}  // namespace

PassInfo FuseQuantized::info() const {
  return PassInfo::extension("fuse-quantized", "Makes integer operators of floats between dequantize and quantize");
}

Result<Changed> FuseQuantized::run(ir::Graph& graph, PassContext& context) {
  const Changed inner = rewrite_each(graph, [&](ir::Node* node) {
    if (node->op != kQuantizePerTensor || !node->tag.empty()) {
      return false;
    }
    const std::optional<Activation> result = affine_of(*node);
    return result && (fuse_operator(context.program, node, *result) || fuse_table(context, node, *result));
  });
  const Changed outer = rewrite_each(graph, [&](ir::Node* node) {
    return node->tag.empty() && (fuse_float_product(context.program, node) || fuse_embedding(context.program, node));
  });
  return inner == Changed::kYes ? inner : outer;
}

}  // namespace et::passes
