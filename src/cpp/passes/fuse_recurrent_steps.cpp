#include "passes/fuse_recurrent_steps.h"

#include <algorithm>
#include <unordered_map>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/step_gates.h"

namespace et::passes {
namespace {

// Steps of four kinds, that stand one behind the other or are the body of a loop, whose item is the part. Where the
// product of the state is known, as that of a zero is, it is `first`.
const ir::Pattern kIntegerLstm = R"(
  after = et::lstm_gates(sums, cell)
  sums = dequantize(sum, sum_scale, sum_zero, ...)
  sum = et::quantized_add(product, product_scale, product_zero, part, part_scale, part_zero,
                          sum_scale, sum_zero, sum_min, sum_max)
      | et::quantized_add(part, part_scale, part_zero, product, product_scale, product_zero,
                          sum_scale, sum_zero, sum_min, sum_max)
  part = &unbind(inputs, 0)#_ | quantize(item, part_scale, part_zero, ...)
  product = et::quantized_linear(state, state_scale, state_zero, weight, weight_scales, bias,
                                 product_scale, product_zero, product_min, product_max)
      | first
  state = quantize(hidden, state_scale, state_zero, state_min, state_max, ...)
)";
const ir::Pattern kIntegerGru = R"(
  after = et::gru_gates(dequantize(part, part_scale, part_zero, ...) | item, products, hidden)
  part = &unbind(inputs, 0)#_ | quantize(item, part_scale, part_zero, ...)
  products = dequantize(product, product_scale, product_zero, ...) | first
  product = et::quantized_linear(state, state_scale, state_zero, weight, weight_scales, bias,
                                 product_scale, product_zero, product_min, product_max)
  state = quantize(hidden, state_scale, state_zero, state_min, state_max, ...)
)";
const ir::Pattern kFloatLstm = R"(
  after = et::lstm_gates(add(part, product), cell)
  part = &unbind(inputs, 0)#_ | item
  product = et::dynamic_linear(hidden, weight, weight_scales, bias, group_size, per_token, symmetric,
                               quant_min, quant_max, eps)
      | et::weight_only_linear(hidden, weight, weight_scales, weight_zeros, bias, group_size)
      | first
)";
const ir::Pattern kFloatGru = R"(
  after = et::gru_gates(part, product, hidden)
  part = &unbind(inputs, 0)#_ | item
  product = et::dynamic_linear(hidden, weight, weight_scales, bias, group_size, per_token, symmetric,
                               quant_min, quant_max, eps)
      | et::weight_only_linear(hidden, weight, weight_scales, weight_zeros, bias, group_size)
      | first
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

/// Steps that multiply the state with an operator, and the operator for all of them: its arguments by the pattern's
/// names, but for the last one, which is the direction.
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
/// Arguments that steps do not share.
constexpr std::string_view kOwn[] = {"inputs", "hidden", "cell", "first"};

/// One step.
struct Step {
  const ir::Pattern* pattern;
  ir::Match found;

  ir::Node* gates() const { return found.root(); }
  ir::Value* after() const { return gates()->result(0); }
  ir::Node* unbind() const { return found.node("part"); }  ///< of the products of the inputs
  size_t part() const { return found.value("part")->result_index(); }
  bool has_product() const { return found["first"].is_none(); }  ///< of its state
  bool is_lstm() const { return gates()->op == op::et_lstm_gates; }
  bool is_static() const { return pattern == &kIntegerLstm || pattern == &kIntegerGru; }
  /// The node that reads the state for the product; nullptr without one.
  const ir::Node* reader() const {
    return !has_product() ? nullptr : is_static() ? found.node("state") : found.node("product");
  }
  /// Of the product; nullptr without one.
  const Form* form() const {
    const auto* const form = std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& one) {
      return &one.pattern == pattern && has_product() && one.product == found.node("product")->op;
    });
    return form == std::end(kForms) ? nullptr : form;
  }
};

/// True for what a loop hands to its body.
bool is_carried(const ir::Argument& argument) {
  const ir::Value* const value = argument.value();
  return value != nullptr && value->producer() == nullptr && value->graph()->owner != nullptr;
}

bool is_step(const ir::Match& m) {
  return is_untagged(m) && (m["item"].is_none() || (is_carried(m["item"]) && m["first"].is_none())) &&
         std::all_of(m.nodes.begin(), m.nodes.end(), [](const ir::Node* node) {
           return !is_one_of(node->op, {kQuantizePerTensor, kDequantizePerTensor}) || affine_of(*node);
         });
}

std::optional<Step> match(ir::Node& node, const ir::Program& program) {
  for (const ir::Pattern* pattern : {&kFloatLstm, &kIntegerLstm, &kIntegerGru, &kFloatGru}) {
    if (std::optional<ir::Match> found = pattern->match(node, program, is_step)) {
      return Step{pattern, std::move(*found)};
    }
  }
  return std::nullopt;
}

// ------------------------------------------------------------------------------------------------------------- the
// chain

/// Steps of one layer, in the order in which they run.
using Chain = std::vector<Step>;

/// True for one value, and for constants of one type with the same bytes.
bool is_same(const ir::Program& program, const ir::Argument& a, const ir::Argument& b) {
  if (a == b) {
    return true;
  }
  const ir::Constant* const x = constant_of(program, a);
  const ir::Constant* const y = constant_of(program, b);
  return x != nullptr && y != nullptr && x->type == y->type &&
         (x->data == y->data || std::memcmp(x->data, y->data, static_cast<size_t>(x->type.max_nbytes())) == 0);
}

/// True when `next` follows the last step of the chain.
bool follows(const ir::Program& program, const Chain& chain, const Step& next) {
  const Step& last = chain.back();
  const Form* const form = next.form();
  if (form == nullptr || next.pattern != last.pattern || next.unbind() != last.unbind() ||
      next.found.value("hidden") != last.after() || (last.has_product() && last.form() != form)) {
    return false;
  }
  if (next.is_lstm()) {
    const ir::Value* const cell = last.gates()->result(1);
    if (next.found.value("cell") != cell || !is_only_use(cell, next.gates())) {
      return false;
    }
  }
  const bool same_state = !next.is_static() || !last.has_product() ||
                          next.found.value("state")->type.tensor.dtype == last.found.value("state")->type.tensor.dtype;
  return same_state && std::all_of(form->arguments.begin(), form->arguments.end(), [&](std::string_view name) {
           const bool is_unknown = !last.has_product() && last.found[name].is_none();
           return is_unknown || std::count(std::begin(kOwn), std::end(kOwn), name) != 0 ||
                  is_same(program, next.found[name], last.found[name]);
         });
}

/// Which way a chain goes through the parts, if it goes through all of them in order: +1 or -1; else 0.
int direction_of(const Chain& chain) {
  const size_t count = chain.front().unbind()->results().size();
  if (chain.size() != count || count < 2) {
    return 0;
  }
  bool forward = true, backward = true;
  for (size_t i = 0; i < count; ++i) {
    forward = forward && chain[i].part() == i;
    backward = backward && chain[i].part() == count - 1 - i;
  }
  return forward ? 1 : backward ? -1 : 0;
}

/// True for products [batch, gates * hidden] of the first step, with sizes of one in front.
bool has_fitting_first(const Step& step, const ir::TensorType& input) {
  if (step.has_product()) {
    return true;
  }
  const ir::TensorType& first = step.found.value("first")->type.tensor;
  const size_t rank = first.rank();
  return step.found.value("first")->type.is_tensor() &&
         first.dtype == (step.is_lstm() ? input.dtype : ScalarType::Float) && first.is_row_major() && rank >= 2 &&
         first.dims[rank - 1] == input.dims[2] && first.dims[rank - 2] == input.dims[1] &&
         std::all_of(first.dims.begin(), first.dims.end() - 2, [](const ir::Dim& size) { return size == 1; });
}

/// The types that the operators take, but for integers of 16 bits, of which there is no fast kernel.
bool has_fitting_types(const Chain& chain) {
  const Step& step = chain.front();
  const ir::TensorType& input = ops::UnbindInt(*step.unbind()).self().value()->type.tensor;
  const ir::TensorType& state = step.after()->type.tensor;
  const ir::TensorType& last = chain.back().after()->type.tensor;
  const size_t rank = state.rank();
  const bool has_fitting_elements = step.is_static()
                                        ? input.dtype == ScalarType::Char || input.dtype == ScalarType::Byte
                                        : input.dtype == ScalarType::Float;
  if (!has_fitting_elements || input.rank() != 3 || !input.is_row_major() || !state.is_row_major() || rank < 2 ||
      rank > 3 || (rank == 3 && !(state.dims[0] == 1)) || !(state == last) || !has_fitting_first(step, input)) {
    return false;
  }
  const ir::TensorType& weight = chain.back().found.value("weight")->type.tensor;
  return weight.rank() == 2 && state.dims[rank - 2] == input.dims[1] && state.dims[rank - 1].is_static() &&
         input.dims[2] == ir::Dim(state.dims[rank - 1].max * (step.is_lstm() ? 4 : 3)) &&
         weight.dims[0] == input.dims[2] && weight.is_row_major();
}

/// Those who read a state and are no step.
template <typename Visit>
void over_readers(const Chain& chain, const Visit& visit) {
  for (size_t i = 0; i < chain.size(); ++i) {
    for (ir::Node* const user : chain[i].after()->users()) {
      const bool is_step = i + 1 < chain.size() && (user == chain[i + 1].reader() || user == chain[i + 1].gates());
      if (!is_step) {
        visit(i, user);
      }
    }
  }
}

/// True when all that reads a state stands behind the last step, where the operator will be.
bool is_read_behind(const Chain& chain, const std::unordered_map<const ir::Node*, size_t>& positions) {
  bool is_behind = true;
  over_readers(chain, [&](size_t, const ir::Node* user) {
    const auto found = positions.find(user);  // not in this graph: a region
    is_behind = is_behind && found != positions.end() && found->second > positions.at(chain.back().gates());
  });
  return is_behind;
}

// ------------------------------------------------------------------------------------------------------------- the
// rewrite

/// The products of the first step: one row where all sequences have the same.
ir::Argument first_products(ir::Program& program, const Chain& chain, ir::Node* before) {
  ir::Value* const first = chain.front().found.value("first");
  const ir::Constant* const constant = constant_of(program, first);
  if (constant == nullptr || !constant->type.is_row_major() || constant->type.rank() == 0) {
    return first == nullptr ? ir::Argument{} : ir::Argument{first};
  }
  const int64_t columns = constant->type.dims.back().max;
  const auto row = static_cast<size_t>(columns) * element_size(constant->type.dtype);
  const auto nbytes = static_cast<size_t>(constant->type.max_nbytes());
  const auto* const bytes = static_cast<const unsigned char*>(constant->data);
  if (row == 0 || nbytes == row || std::memcmp(bytes, bytes + row, nbytes - row) != 0) {
    return {first};
  }
  unsigned char* data = nullptr;
  ir::Constant shared = new_constant(ir::TensorType::contiguous(constant->type.dtype, {columns}), &data);
  std::memcpy(data, bytes, row);
  return {add_constant(program, *before->graph(), first->name + "_row", std::move(shared), before)};
}

/// A state as a part of the operator's result.
ir::Value* state_at(const ir::Value* state, ir::Value* states, int64_t time, const ir::Node& fused) {
  const bool is_row = state->type.tensor.rank() == 2;
  std::vector<ir::Argument> args = {{states}, {int64_t{0}}, {time}};
  if (!is_row) {
    args.insert(args.end(), {{time + 1}, {int64_t{1}}});
  }
  ir::Node* const node = fused.graph()->create_node(is_row ? op::select_copy_int : op::slice_copy_Tensor,
                                                    std::move(args), fused.graph()->next(&fused));
  node->source = fused.source;
  return node->add_result(states->name + "_part", state->type);
}

/// True when `node` puts the states together in the order of time.
bool is_sequence(const ir::Node& node, const Chain& chain, bool reverse) {
  const auto* const parts = node.op == op::cat ? ops::Cat(node).tensors().as<ir::Argument::List>() : nullptr;
  if (parts == nullptr || parts->size() != chain.size() || int_of(ops::Cat(node).dim()) != 0 ||
      chain.front().after()->type.tensor.rank() != 3 || !node.tag.empty()) {
    return false;
  }
  for (size_t i = 0; i < parts->size(); ++i) {
    const Step& step = chain[reverse ? parts->size() - 1 - i : i];
    if ((*parts)[i].value() != step.after()) {
      return false;
    }
  }
  return true;
}

std::vector<ir::Argument> arguments(const Chain& chain, const Form& form, ir::Value* input, const ir::Argument& first,
                                    bool reverse) {
  std::vector<ir::Argument> args;
  for (const std::string_view name : form.arguments) {
    const bool is_of_start = name == "hidden" || name == "cell";
    args.push_back(name == "inputs"  ? ir::Argument{input}
                   : name == "first" ? first
                   : is_of_start     ? chain.front().found[name]
                                     : chain.back().found[name]);
  }
  args.push_back({reverse});
  return args;
}

void fuse(ir::Program& program, const Chain& chain, bool is_backward) {
  const Step& start = chain.front();
  const Step& last = chain.back();
  ir::Graph& graph = *last.gates()->graph();
  ir::Node* const behind = last.gates();
  ir::Value* input = ops::UnbindInt(*start.unbind()).self().value();
  const ir::Node* const flip = producer_if({input}, {op::flip});
  const bool is_flipped = flip != nullptr && flip->tag.empty() && flip->graph() == &graph &&
                          ints_of(ops::Flip(*flip).dims()) == std::vector<int64_t>{0};
  if (is_flipped) {
    input = ops::Flip(*flip).self().value();
  }
  const bool reverse = is_backward != is_flipped;
  const Form& form = *last.form();
  ir::Node* const fused =
      create_like(*behind, form.op, arguments(chain, form, input, first_products(program, chain, behind), reverse));
  ir::TensorType type = ir::TensorType::contiguous(ScalarType::Float, {0, 0, 0});
  type.dims = input->type.tensor.dims;
  type.dims.back() = last.after()->type.tensor.dims.back();
  ir::Value* const states = fused->add_result("states", ir::Type::of(type));
  if (last.is_lstm()) {
    ir::Value* const cell = fused->add_result("cell", last.gates()->result(1)->type);
    graph.replace_all_uses(last.gates()->result(1), cell);
    std::swap(cell->name, last.gates()->result(1)->name);
  }

  std::vector<ir::Node*> sequences;
  over_readers(chain, [&](size_t, ir::Node* user) {
    if (is_sequence(*user, chain, reverse) && std::find(sequences.begin(), sequences.end(), user) == sequences.end()) {
      sequences.push_back(user);
    }
  });
  for (ir::Node* const sequence : sequences) {
    graph.replace_all_uses(sequence->result(), states);
    std::swap(sequence->result()->name, states->name);
    fused->absorb(*sequence);
    graph.erase(sequence);
  }
  for (size_t i = chain.size(); i-- > 0;) {
    ir::Value* const old = chain[i].after();
    if (!graph.is_unused(old)) {  // the steps behind this one are gone: what still uses it is a reader
      const auto time = static_cast<int64_t>(reverse ? chain.size() - 1 - i : i);
      ir::Value* const part = state_at(old, states, time, *fused);
      graph.replace_all_uses(old, part);
      std::swap(part->name, old->name);
    }
    erase_unread(chain[i].found.nodes, fused);
  }
}

// -------------------------------------------------------------------------------------------------------------- loops

/// A scan whose body is a step.
struct Loop {
  ir::Node* scan;
  Step step;
  ir::Value* input;  ///< the items

  ir::Value* carried(size_t i) const { return (*scan->args()[0].as<ir::Argument::List>())[i].value(); }
};

/// The value that a clone copies.
const ir::Value* copied(const ir::Value* value) {
  const ir::Node* const clone =
      producer_if({const_cast<ir::Value*>(value)}, {op::clone, op::dim_order_ops_clone_dim_order});
  return clone == nullptr ? value : clone->args()[0].value();
}

std::optional<Loop> loop_of(ir::Node& scan, const ir::Program& program) {
  if (scan.op != "scan" || !scan.tag.empty()) {
    return std::nullopt;
  }
  const ir::Graph& body = *scan.regions.front();
  const auto* const scanned = scan.args()[1].as<ir::Argument::List>();
  ir::Value* const after = body.outputs.empty() ? nullptr : body.outputs[0].value();
  if (scanned->size() != 1 || after == nullptr || after->producer() == nullptr || after->producer()->graph() != &body ||
      after->result_index() != 0) {
    return std::nullopt;
  }
  std::optional<Step> step = match(*after->producer(), program);
  const size_t carried = step && step->is_lstm() ? 2 : 1;
  const auto& inputs = body.inputs();
  if (!step || step->form() == nullptr || inputs.size() != carried + 1 || body.outputs.size() != carried + 1 ||
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

/// The types that the operators take (see above).
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
  for (const std::string_view name : step.form()->arguments) {
    const std::optional<ir::Argument> own = name == "inputs"       ? ir::Argument{input}
                                            : name == "hidden"     ? ir::Argument{loop.carried(0)}
                                            : name == "cell"       ? ir::Argument{loop.carried(1)}
                                            : name == "part_scale" ? ir::Argument{integers->scale}
                                            : name == "part_zero"  ? ir::Argument{integers->zero_point}
                                                                   : outside(step.found[name], loop);
    if (!own) {
      return false;
    }
    args.push_back(*own);
  }
  args.push_back({reverse});
  ir::Node* const fused = create_like(*loop.scan, step.form()->op, std::move(args));
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
  std::vector<Chain> chains;
  std::vector<ir::Node*> scans;
  std::unordered_map<const ir::Value*, size_t> ends;  // the state that a chain ends in
  std::unordered_map<const ir::Node*, size_t> positions;
  for (const auto& node : graph.nodes()) {
    positions.emplace(node.get(), positions.size());
    if (node->op == "scan") {
      scans.push_back(node.get());
    }
    std::optional<Step> step = match(*node, context.program);
    if (!step || !step->found["item"].is_none()) {
      continue;
    }
    const auto end = ends.find(step->found.value("hidden"));
    const bool goes_on = end != ends.end() && follows(context.program, chains[end->second], *step);
    const size_t index = goes_on ? end->second : chains.size();
    if (!goes_on) {
      chains.emplace_back();
    }
    ends[step->after()] = index;
    chains[index].push_back(std::move(*step));
  }
  Changed changed = Changed::kNo;
  for (ir::Node* const scan : scans) {
    const std::optional<Loop> loop = loop_of(*scan, context.program);
    changed = loop && has_fitting_types(*loop) && fuse(*loop) ? Changed::kYes : changed;
  }
  for (const Chain& chain : chains) {
    const int direction = direction_of(chain);
    if (direction != 0 && has_fitting_types(chain) && is_read_behind(chain, positions)) {
      fuse(context.program, chain, direction < 0);
      changed = Changed::kYes;
    }
  }
  return changed;
}

}  // namespace et::passes
