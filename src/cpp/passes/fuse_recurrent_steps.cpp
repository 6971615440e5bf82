#include "passes/fuse_recurrent_steps.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/lower_loops.h"
#include "passes/step_gates.h"

namespace et::passes {
namespace {

// Steps of four kinds: bodies of loops, whose item is a part of the inputs' products.
const ir::Pattern kIntegerLstm = R"(
  after = et::lstm_gates(sums, cell)
  sums = dequantize(sum, sum_scale, sum_zero, ...)
  sum = et::quantized_add(product, product_scale, product_zero, part, part_scale, part_zero,
                          sum_scale, sum_zero, sum_min, sum_max)
      | et::quantized_add(part, part_scale, part_zero, product, product_scale, product_zero,
                          sum_scale, sum_zero, sum_min, sum_max)
  part = quantize(item, part_scale, part_zero, ...)
  product = et::quantized_linear(state, state_scale, state_zero, weight, weight_scales, bias,
                                 product_scale, product_zero, product_min, product_max)
  state = quantize(hidden, state_scale, state_zero, state_min, state_max, ...)
)";
const ir::Pattern kIntegerGru = R"(
  after = et::gru_gates(dequantize(part, part_scale, part_zero, ...) | item, products, hidden)
  part = quantize(item, part_scale, part_zero, ...)
  products = dequantize(product, product_scale, product_zero, ...)
  product = et::quantized_linear(state, state_scale, state_zero, weight, weight_scales, bias,
                                 product_scale, product_zero, product_min, product_max)
  state = quantize(hidden, state_scale, state_zero, state_min, state_max, ...)
)";
const ir::Pattern kFloatLstm = R"(
  after = et::lstm_gates(add(item, product), cell)
  product = et::dynamic_linear(hidden, weight, weight_scales, bias, group_size, per_token, symmetric,
                               quant_min, quant_max, eps)
      | et::weight_only_linear(hidden, weight, weight_scales, weight_zeros, bias, group_size)
)";
const ir::Pattern kFloatGru = R"(
  after = et::gru_gates(item, product, hidden)
  product = et::dynamic_linear(hidden, weight, weight_scales, bias, group_size, per_token, symmetric,
                               quant_min, quant_max, eps)
      | et::weight_only_linear(hidden, weight, weight_scales, weight_zeros, bias, group_size)
)";

using Names = Span<const std::string_view>;
constexpr std::string_view kIntegerLstmArguments[] = {
    "inputs",       "part_scale",  "part_zero",   "hidden",        "cell",     "state_scale", "state_zero",
    "state_min",    "state_max",   "weight",      "weight_scales", "bias",     "first",       "product_scale",
    "product_zero", "product_min", "product_max", "sum_scale",     "sum_zero", "sum_min",     "sum_max"};
constexpr std::string_view kIntegerGruArguments[] = {
    "inputs", "part_scale",    "part_zero", "hidden", "state_scale",   "state_zero",   "state_min",   "state_max",
    "weight", "weight_scales", "bias",      "first",  "product_scale", "product_zero", "product_min", "product_max"};
constexpr std::string_view kDynamicLstmArguments[] = {
    "inputs",    "hidden",    "cell",      "weight",    "weight_scales", "bias", "group_size",
    "per_token", "symmetric", "quant_min", "quant_max", "eps",           "first"};
constexpr std::string_view kDynamicGruArguments[] = {"inputs",    "hidden",     "weight",    "weight_scales",
                                                     "bias",      "group_size", "per_token", "symmetric",
                                                     "quant_min", "quant_max",  "eps",       "first"};
constexpr std::string_view kWeightOnlyLstmArguments[] = {
    "inputs", "hidden", "cell", "weight", "weight_scales", "weight_zeros", "bias", "group_size", "first"};
constexpr std::string_view kWeightOnlyGruArguments[] = {"inputs",       "hidden", "weight",     "weight_scales",
                                                        "weight_zeros", "bias",   "group_size", "first"};

/// Steps that multiply the state with an operator, and the operator for all of them. Arguments have the pattern's
/// names, and the last one is the direction. `first`, the product of a first state that is known, is none.
struct Form {
  const ir::Pattern& pattern;
  std::string_view product;
  std::string_view op;
  Names arguments;
};
constexpr Form kForms[] = {
    {kIntegerLstm, op::et_quantized_linear, op::et_quantized_lstm, kIntegerLstmArguments},
    {kIntegerGru, op::et_quantized_linear, op::et_quantized_gru, kIntegerGruArguments},
    {kFloatLstm, op::et_dynamic_linear, op::et_dynamic_lstm, kDynamicLstmArguments},
    {kFloatLstm, op::et_weight_only_linear, op::et_weight_only_lstm, kWeightOnlyLstmArguments},
    {kFloatGru, op::et_dynamic_linear, op::et_dynamic_gru, kDynamicGruArguments},
    {kFloatGru, op::et_weight_only_linear, op::et_weight_only_gru, kWeightOnlyGruArguments},
};

/// One step.
struct Step {
  const Form* form;
  ir::Match found;

  ir::Node* gates() const { return found.root(); }
  ir::Value* after() const { return gates()->result(0); }
  bool is_lstm() const { return gates()->op == op::et_lstm_gates; }
  bool is_static() const { return &form->pattern == &kIntegerLstm || &form->pattern == &kIntegerGru; }
};

/// True for what a loop hands to its body.
bool is_carried(const ir::Argument& argument) {
  const ir::Value* const value = argument.value();
  return value != nullptr && value->producer() == nullptr && value->graph()->owner != nullptr;
}

bool is_step(const ir::Match& m) {
  return is_untagged(m) && is_carried(m["item"]) &&
         std::all_of(m.nodes.begin(), m.nodes.end(), [](const ir::Node* node) {
           return !is_one_of(node->op, {kQuantizePerTensor, kDequantizePerTensor}) || affine_of(*node);
         });
}

std::optional<Step> match(ir::Node& node, const ir::Program& program) {
  for (const Form& form : kForms) {
    std::optional<ir::Match> found = form.pattern.match(node, program, is_step);
    if (found && found->node("product")->op == form.product) {
      return Step{&form, std::move(*found)};
    }
  }
  return std::nullopt;
}

/// A scan whose body is a step.
struct Loop {
  ir::Node* scan;
  Step step;
  ir::Value* input;  ///< the items

  ir::Value* carried(size_t i) const { return (*scan->args()[kInitial].as<ir::Argument::List>())[i].value(); }
};

/// The value that a clone copies.
const ir::Value* copied(const ir::Value* value) {
  const ir::Node* const clone =
      producer_if({const_cast<ir::Value*>(value)}, {op::clone, op::dim_order_ops_clone_dim_order});
  return clone == nullptr ? value : clone->args()[0].value();
}

std::optional<Loop> loop_of(ir::Node& scan, const ir::Program& program) {
  if (!scan.tag.empty()) {
    return std::nullopt;
  }
  const ir::Graph& body = *scan.regions.front();
  const auto* const scanned = scan.args()[kScanned].as<ir::Argument::List>();
  ir::Value* const after = body.outputs.empty() ? nullptr : body.outputs[0].value();
  if (scanned->size() != 1 || after == nullptr || after->producer() == nullptr || after->producer()->graph() != &body ||
      after->result_index() != 0) {
    return std::nullopt;
  }
  std::optional<Step> step = match(*after->producer(), program);
  const size_t carried = step && step->is_lstm() ? 2 : 1;
  const auto& inputs = body.inputs();
  if (!step || inputs.size() != carried + 1 || body.outputs.size() != carried + 1 ||
      step->found.value("hidden") != inputs[0].get() || step->found.value("item") != inputs[carried].get() ||
      copied(body.outputs[carried].value()) != after) {
    return std::nullopt;
  }
  if (step->is_lstm() &&
      (step->found.value("cell") != inputs[1].get() || body.outputs[1].value() != step->gates()->result(1))) {
    return std::nullopt;
  }
  return Loop{&scan, std::move(*step), scanned->front().value()};
}

/// The types that the operators take. Integers have 8 bits (`integers_of`).
bool has_fitting_types(const Loop& loop) {
  const ir::TensorType& items = loop.input->type.tensor;
  const ir::TensorType& state = loop.step.after()->type.tensor;
  const ir::TensorType& weight = loop.step.found.value("weight")->type.tensor;
  return items.dtype == ScalarType::Float && items.rank() == 3 && items.is_row_major() && state.rank() == 2 &&
         state.is_row_major() && state.dims[1].is_static() && weight.rank() == 2 && weight.is_row_major() &&
         items.dims[2] == ir::Dim(state.dims[1].max * (loop.step.is_lstm() ? 4 : 3)) && weight.dims[0] == items.dims[2];
}

/// A constant of a body as one in front of the loop; nothing for what the body computes.
std::optional<ir::Argument> outside(const ir::Argument& argument, const Loop& loop) {
  const ir::Value* const value = argument.value();
  if (value == nullptr || value->graph() != loop.scan->regions.front().get()) {
    return argument;
  }
  if (value->producer() == nullptr || value->producer()->op != "constant") {
    return std::nullopt;
  }
  ir::Node* const constant = loop.scan->graph()->create_node("constant", {}, loop.scan);
  constant->symbol = value->producer()->symbol;
  return {{constant->add_result(value->name, value->type)}};
}

/// The items as integers of 8 bits, of which the body makes the same ones where it quantizes them.
std::optional<Activation> integers_of(const Loop& loop) {
  const std::optional<Activation> items = activation_of({loop.input});
  const ir::Node* const quantize = loop.step.found.node("part");
  const bool fits = items && element_size(items->dtype) == 1 &&
                    (quantize == nullptr || items->same_parameters(affine_of(*quantize).value_or(Activation())));
  return fits ? items : std::nullopt;
}

const ir::Node* flip_of(const ir::Value* value) {
  const ir::Node* const flip = producer_if({const_cast<ir::Value*>(value)}, {op::flip});
  return flip != nullptr && flip->tag.empty() && ints_of(ops::Flip(*flip).dims()) == std::vector<int64_t>{0} ? flip
                                                                                                             : nullptr;
}

bool fuse(const Loop& loop) {
  ir::Graph& graph = *loop.scan->graph();
  const Step& step = loop.step;
  ir::Value* const states_before = loop.scan->results().back().get();
  const std::optional<Activation> integers = step.is_static() ? integers_of(loop) : std::nullopt;
  if (step.is_static() && !integers) {
    return false;
  }
  ir::Value* input = integers ? integers->integers : loop.input;
  const std::vector<ir::Node*> readers = states_before->users();
  const bool reverse = flip_of(input) != nullptr && !graph.is_output(states_before) &&
                       std::all_of(readers.begin(), readers.end(), [&](const ir::Node* reader) {
                         return flip_of(reader->results().empty() ? nullptr : reader->result()) == reader;
                       });
  if (reverse) {
    input = ops::Flip(*flip_of(input)).self().value();
  }
  std::vector<ir::Argument> args;
  for (const std::string_view name : step.form->arguments) {
    const std::optional<ir::Argument> own = name == "inputs"       ? ir::Argument{input}
                                            : name == "hidden"     ? ir::Argument{loop.carried(0)}
                                            : name == "cell"       ? ir::Argument{loop.carried(1)}
                                            : name == "part_scale" ? ir::Argument{integers->scale}
                                            : name == "part_zero"  ? ir::Argument{integers->zero_point}
                                            : name == "first"      ? ir::Argument{}
                                                                   : outside(step.found[name], loop);
    if (!own) {
      return false;
    }
    args.push_back(*own);
  }
  args.push_back({reverse});
  ir::Node* const fused = create_like(*loop.scan, step.form->op, std::move(args));
  fused->source = step.gates()->source;
  ir::Value* const states = fused->add_result("states", states_before->type);
  if (step.is_lstm()) {
    ir::Value* const cell = fused->add_result("cell", loop.scan->result(1)->type);
    graph.replace_all_uses(loop.scan->result(1), cell);
  }
  if (!graph.is_unused(loop.scan->result(0))) {
    const int64_t last = reverse ? 0 : -1;
    ir::Node* const part = create_like(*loop.scan, op::select_copy_int, {{states}, {int64_t{0}}, {last}});
    graph.replace_all_uses(loop.scan->result(0), part->add_result("last", loop.scan->result(0)->type));
  }
  graph.replace_all_uses(states_before, states);
  for (ir::Node* const reader : readers) {
    if (reverse) {
      graph.replace_all_uses(reader->result(), states);
      fused->absorb(*reader);
      graph.erase(reader);
    }
  }
  for (const auto& node : loop.scan->regions.front()->nodes()) {
    fused->absorb(*node);
  }
  fused->absorb(*loop.scan);
  graph.erase(loop.scan);
  return true;
}

}  // namespace

PassInfo FuseRecurrentSteps::info() const {
  return PassInfo::extension("fuse-recurrent-steps", "Makes one operator of the steps of a quantized LSTM or GRU");
}

Result<Changed> FuseRecurrentSteps::run(ir::Graph& graph, PassContext& context) {
  std::vector<ir::Node*> scans;  // fusing erases nodes behind them
  for (const auto& node : graph.nodes()) {
    if (node->op == "scan") {
      scans.push_back(node.get());
    }
  }
  Changed changed = Changed::kNo;
  for (ir::Node* const scan : scans) {
    const std::optional<Loop> loop = loop_of(*scan, context.program);
    changed = loop && has_fitting_types(*loop) && fuse(*loop) ? Changed::kYes : changed;
  }
  return changed;
}

}  // namespace et::passes
