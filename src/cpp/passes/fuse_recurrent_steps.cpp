#include "passes/fuse_recurrent_steps.h"

#include <algorithm>
#include <unordered_map>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/step_gates.h"

namespace et::passes {
namespace {

/// An operator that multiplies the states, and what a layer of such steps is.
struct Form {
  std::string_view product, lstm, gru;
};
constexpr std::string_view kIntegerProduct = op::et_quantized_linear;
constexpr Form kForms[] = {
    {kIntegerProduct, op::et_quantized_lstm, op::et_quantized_gru},
    {op::et_dynamic_linear, op::et_dynamic_lstm, op::et_dynamic_gru},
    {op::et_weight_only_linear, op::et_weight_only_lstm, op::et_weight_only_gru},
};

const Form* form_of(const ir::Node& product) {
  const auto* const found =
      std::find_if(std::begin(kForms), std::end(kForms), [&](const Form& form) { return form.product == product.op; });
  return found == std::end(kForms) ? nullptr : found;
}

/// What one step is made of.
struct Step {
  ir::Node* gates = nullptr;
  ir::Node* unbind = nullptr;    ///< of the products of the inputs
  size_t part = 0;               ///< which of them
  ir::Node* linear = nullptr;    ///< nullptr: the product is `first`
  ir::Node* quantize = nullptr;  ///< of the state; nullptr where the product takes floats
  ir::Value* first = nullptr;
  ir::Value* hidden = nullptr;  ///< the state before; nullptr where an LSTM's product is `first`
  ir::Value* cell = nullptr;    ///< LSTM: before
  bool is_static = false;       ///< the products are integers, with these scales
  Activation input;             ///< of the parts
  Activation product;
  ir::Node* sum = nullptr;       ///< LSTM: the quantized_add, or the add of floats
  std::vector<ir::Node*> nodes;  ///< all of them, the last one first

  bool is_lstm() const { return gates->op == op::et_lstm_gates; }
  /// The node that reads the state for the product.
  const ir::Node* reader() const { return quantize != nullptr ? quantize : linear; }
};

// Products that are not static have their weight behind the input.
namespace product_args = ops::arguments::et_quantized_linear;
namespace sum_args = ops::arguments::et_quantized_add;

ir::Node* only_producer(ir::Value* value, const ir::Node* user, std::string_view op) {
  ir::Node* const node = value == nullptr ? nullptr : value->producer();
  return node != nullptr && node->op == op && node->tag.empty() && node->graph() == user->graph() &&
                 is_only_use(value, user)
             ? node
             : nullptr;
}

/// True when `value` is a part of an unbind along the first dimension.
bool take_part(ir::Value* value, Step& s) {
  ir::Node* const unbind = value == nullptr ? nullptr : value->producer();
  if (unbind == nullptr || !is_one_of(unbind->op, {op::unbind_copy_int, op::unbind_int}) || !unbind->tag.empty() ||
      unbind->graph() != s.gates->graph() || int_of(unbind->args()[1]) != 0) {
    return false;
  }
  s.unbind = unbind;
  s.part = value->result_index();
  return true;
}

bool is_parameter(const ir::Argument& scale, const ir::Argument& zero_point, const Activation& p) {
  return number_of(scale) == p.scale && int_of(zero_point) == p.zero_point;
}

/// The product of the state before, or another value in its place.
bool take_product(ir::Value* value, const ir::Node* user, Step& s) {
  ir::Node* const made_by = value == nullptr ? nullptr : value->producer();
  ir::Node* const linear =
      made_by == nullptr || form_of(*made_by) == nullptr || (made_by->op == kIntegerProduct) != s.is_static
          ? nullptr
          : only_producer(value, user, made_by->op);
  if (linear == nullptr) {
    s.first = value;
    return true;
  }
  if (!s.is_static) {
    s.linear = linear;
    s.hidden = linear->args()[product_args::kInput].value();
    s.nodes.push_back(linear);
    return true;
  }
  ir::Node* const quantize = only_producer(linear->args()[product_args::kInput].value(), linear, kQuantizePerTensor);
  const std::optional<Activation> state = quantize == nullptr ? std::nullopt : affine_of(*quantize);
  if (!state ||
      !is_parameter(linear->args()[product_args::kInputScale], linear->args()[product_args::kInputZeroPoint], *state) ||
      !is_parameter(linear->args()[product_args::kOutputScale], linear->args()[product_args::kOutputZeroPoint],
                    s.product)) {
    return false;
  }
  s.linear = linear;
  s.quantize = quantize;
  s.hidden = quantize->args()[0].value();
  s.nodes.insert(s.nodes.end(), {linear, quantize});
  return true;
}

Activation parameters_at(const ir::Node& node, size_t operand) {
  Activation found;
  found.integers = node.args()[operand].value();
  found.scale = number_of(node.args()[operand + 1]).value_or(0);
  found.zero_point = int_of(node.args()[operand + 2]).value_or(0);
  return found;
}

/// Sums of floats.
bool match_float_lstm(Step& s) {
  s.sum = only_producer(s.gates->args()[0].value(), s.gates, op::add_Tensor);
  if (s.sum == nullptr || number_of(s.sum->args()[2]) != 1.0) {
    return false;
  }
  s.cell = s.gates->args()[1].value();
  s.nodes.push_back(s.sum);
  return either_order(*s.sum, s, [&](ir::Value* part, ir::Value* product) {
    return part != nullptr && product != nullptr && part != product && take_part(part, s) &&
           take_product(product, s.sum, s);
  });
}

/// Sums of integers.
bool match_static_lstm(Step& s) {
  ir::Node* const dequantize = only_producer(s.gates->args()[0].value(), s.gates, kDequantizePerTensor);
  const std::optional<Activation> sums = dequantize == nullptr ? std::nullopt : affine_of(*dequantize);
  s.sum = sums ? only_producer(sums->integers, dequantize, op::et_quantized_add) : nullptr;
  if (s.sum == nullptr ||
      !is_parameter(s.sum->args()[sum_args::kOutputScale], s.sum->args()[sum_args::kOutputZeroPoint], *sums)) {
    return false;
  }
  s.is_static = true;
  s.cell = s.gates->args()[1].value();
  s.nodes.insert(s.nodes.end(), {dequantize, s.sum});
  const Step before = s;
  for (const size_t operand : {size_t{3}, size_t{0}}) {
    s.input = parameters_at(*s.sum, operand);
    s.product = parameters_at(*s.sum, 3 - operand);
    if (s.input.integers != s.product.integers && take_part(s.input.integers, s) &&
        take_product(s.product.integers, s.sum, s)) {
      return true;
    }
    s = before;
  }
  return false;
}

bool match_gru(Step& s) {
  s.hidden = s.gates->args()[2].value();
  const ir::Value* const hidden = s.hidden;
  if (take_part(s.gates->args()[0].value(), s)) {
    return take_product(s.gates->args()[1].value(), s.gates, s) && s.hidden == hidden;
  }
  s.is_static = true;
  ir::Node* const part = only_producer(s.gates->args()[0].value(), s.gates, kDequantizePerTensor);
  const std::optional<Activation> input = part == nullptr ? std::nullopt : affine_of(*part);
  if (!input || !take_part(input->integers, s)) {
    return false;
  }
  s.input = *input;
  s.nodes.push_back(part);
  ir::Value* const own = s.gates->args()[1].value();
  ir::Node* const dequantize = only_producer(own, s.gates, kDequantizePerTensor);
  const std::optional<Activation> product = dequantize == nullptr ? std::nullopt : affine_of(*dequantize);
  if (!product) {
    s.first = own;
    return true;
  }
  s.product = *product;
  s.nodes.push_back(dequantize);
  return take_product(product->integers, dequantize, s) && s.first == nullptr && s.hidden == hidden;
}

std::optional<Step> match(ir::Node* node) {
  Step s;
  s.gates = node;
  s.nodes = {node};
  if (!node->tag.empty() || !is_one_of(node->op, {op::et_lstm_gates, op::et_gru_gates})) {
    return std::nullopt;
  }
  return (s.is_lstm() ? match_float_lstm(s) || match_static_lstm(s) : match_gru(s)) ? std::optional(std::move(s))
                                                                                    : std::nullopt;
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

bool have_same_scale(const Activation& a, const Activation& b) {
  return a.scale == b.scale && a.zero_point == b.zero_point;
}

/// True when `next` follows the last step of the chain.
bool follows(const ir::Program& program, const Chain& chain, const Step& next) {
  const Step& last = chain.back();
  const bool is_next = next.gates->op == last.gates->op && next.linear != nullptr && next.unbind == last.unbind &&
                       next.is_static == last.is_static && next.hidden == last.gates->result(0) &&
                       have_same_scale(next.input, last.input);
  // What stands for the first product of a GRU is of floats.
  if (!is_next || (last.product.integers != nullptr && !have_same_scale(next.product, last.product))) {
    return false;
  }
  if (next.is_lstm()) {
    const ir::Value* const cell = last.gates->result(1);
    if (next.cell != cell || !is_only_use(cell, next.gates) ||
        (next.is_static &&
         !std::equal(next.sum->args().begin() + sum_args::kOutputScale, next.sum->args().begin() + sum_args::kOut,
                     last.sum->args().begin() + sum_args::kOutputScale))) {
      return false;
    }
  }
  if (last.linear == nullptr) {
    return true;
  }
  const auto &a = next.linear->args(), &b = last.linear->args();
  return next.linear->op == last.linear->op &&
         std::equal(a.begin() + 1, a.end(), b.begin() + 1, b.end(),
                    [&](const ir::Argument& x, const ir::Argument& y) { return is_same(program, x, y); }) &&
         (!next.is_static || affine_of(*next.quantize)->same_parameters(*affine_of(*last.quantize)));
}

/// Which way a chain goes through the parts, if it goes through all of them in order: +1 or -1; else 0.
int direction_of(const Chain& chain) {
  const size_t count = chain.front().unbind->results().size();
  if (chain.size() != count || count < 2) {
    return 0;
  }
  bool forward = true, backward = true;
  for (size_t i = 0; i < count; ++i) {
    forward = forward && chain[i].part == i;
    backward = backward && chain[i].part == count - 1 - i;
  }
  return forward ? 1 : backward ? -1 : 0;
}

/// True for products [batch, gates * hidden] of the first step, with sizes of one in front.
bool has_fitting_first(const Step& step, const ir::TensorType& input) {
  if (step.first == nullptr) {
    return true;
  }
  const ir::TensorType& first = step.first->type.tensor;
  const size_t rank = first.rank();
  return step.first->type.is_tensor() && first.dtype == (step.is_lstm() ? input.dtype : ScalarType::Float) &&
         first.is_row_major() && rank >= 2 && first.dims[rank - 1] == input.dims[2] &&
         first.dims[rank - 2] == input.dims[1] &&
         std::all_of(first.dims.begin(), first.dims.end() - 2, [](const ir::Dim& size) { return size == 1; });
}

/// The types that the operators take, but for integers of 16 bits, of which there is no fast kernel.
bool has_fitting_types(const Chain& chain) {
  const Step& step = chain.front();
  const ir::TensorType& input = step.unbind->args()[0].value()->type.tensor;
  const ir::TensorType& state = step.gates->result(0)->type.tensor;
  const ir::TensorType& last = chain.back().gates->result(0)->type.tensor;
  const size_t rank = state.rank();
  const bool has_fitting_elements = step.is_static ? input.dtype == ScalarType::Char || input.dtype == ScalarType::Byte
                                                   : input.dtype == ScalarType::Float;
  if (!has_fitting_elements || input.rank() != 3 || !input.is_row_major() || !state.is_row_major() || rank < 2 ||
      rank > 3 || (rank == 3 && !(state.dims[0] == 1)) || !(state == last) || !has_fitting_first(step, input)) {
    return false;
  }
  const ir::TensorType& weight = chain.back()
                                     .linear->args()[step.is_static ? product_args::kWeight : product_args::kInput + 1]
                                     .value()
                                     ->type.tensor;
  return weight.rank() == 2 && state.dims[rank - 2] == input.dims[1] && state.dims[rank - 1].is_static() &&
         input.dims[2] == ir::Dim(state.dims[rank - 1].max * (step.is_lstm() ? 4 : 3)) &&
         weight.dims[0] == input.dims[2] && weight.is_row_major();
}

/// Those who read a state and are no step.
template <typename Visit>
void over_readers(const Chain& chain, const Visit& visit) {
  for (size_t i = 0; i < chain.size(); ++i) {
    for (ir::Node* const user : chain[i].gates->result(0)->users()) {
      const bool is_step = i + 1 < chain.size() && (user == chain[i + 1].reader() || user == chain[i + 1].gates);
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
    is_behind = is_behind && found != positions.end() && found->second > positions.at(chain.back().gates);
  });
  return is_behind;
}

// ------------------------------------------------------------------------------------------------------------- the
// rewrite

/// The products of the first step: one row where all sequences have the same.
ir::Argument first_products(ir::Program& program, const Chain& chain, ir::Node* before) {
  ir::Value* const first = chain.front().first;
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
  const auto* const parts = node.op == op::cat ? node.args()[0].as<ir::Argument::List>() : nullptr;
  if (parts == nullptr || parts->size() != chain.size() || int_of(node.args()[1]) != 0 ||
      chain.front().gates->result(0)->type.tensor.rank() != 3 || !node.tag.empty()) {
    return false;
  }
  for (size_t i = 0; i < parts->size(); ++i) {
    const Step& step = chain[reverse ? parts->size() - 1 - i : i];
    if ((*parts)[i].value() != step.gates->result(0)) {
      return false;
    }
  }
  return true;
}

std::vector<ir::Argument> arguments(const Chain& chain, ir::Value* input, ir::Argument first, bool reverse) {
  const Step& start = chain.front();
  const Step& last = chain.back();
  const auto& linear = last.linear->args();
  std::vector<ir::Argument> args = {{input}};
  const auto add = [&](auto begin, auto end) { args.insert(args.end(), begin, end); };
  if (last.is_static) {
    args.insert(args.end(), {{start.input.scale}, {start.input.zero_point}});
  }
  args.push_back(start.hidden == nullptr ? ir::Argument{} : ir::Argument{start.hidden});
  if (last.is_lstm()) {
    args.push_back({start.cell});
  }
  if (last.is_static) {
    const Activation state = *affine_of(*last.quantize);
    args.insert(args.end(), {{state.scale}, {state.zero_point}, {state.quant_min}, {state.quant_max}});
    add(linear.begin() + product_args::kWeight, linear.begin() + product_args::kOutputScale);
    args.push_back(std::move(first));
    add(linear.begin() + product_args::kOutputScale, linear.begin() + product_args::kOut);
    if (last.is_lstm()) {
      add(last.sum->args().begin() + sum_args::kOutputScale, last.sum->args().begin() + sum_args::kOut);
    }
  } else {
    add(linear.begin() + 1, linear.end());
    args.push_back(std::move(first));
  }
  args.push_back({reverse});
  return args;
}

void fuse(ir::Program& program, const Chain& chain, bool is_backward) {
  const Step& start = chain.front();
  const Step& last = chain.back();
  ir::Graph& graph = *last.gates->graph();
  ir::Node* const behind = last.gates;
  ir::Value* input = start.unbind->args()[0].value();
  const ir::Node* const flip = producer_if({input}, {op::flip});
  const bool is_flipped = flip != nullptr && flip->tag.empty() && flip->graph() == &graph &&
                          ints_of(flip->args()[1]) == std::vector<int64_t>{0};
  if (is_flipped) {
    input = flip->args()[0].value();
  }
  const bool reverse = is_backward != is_flipped;
  const Form& form = *form_of(*last.linear);
  ir::Node* const fused = create_like(*behind, last.is_lstm() ? form.lstm : form.gru,
                                      arguments(chain, input, first_products(program, chain, behind), reverse));
  ir::TensorType type = ir::TensorType::contiguous(ScalarType::Float, {0, 0, 0});
  type.dims = input->type.tensor.dims;
  type.dims.back() = last.gates->result(0)->type.tensor.dims.back();
  ir::Value* const states = fused->add_result("states", ir::Type::of(type));
  if (last.is_lstm()) {
    ir::Value* const cell = fused->add_result("cell", last.gates->result(1)->type);
    graph.replace_all_uses(last.gates->result(1), cell);
    std::swap(cell->name, last.gates->result(1)->name);
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
    ir::Value* const old = chain[i].gates->result(0);
    if (!graph.is_unused(old)) {  // the steps behind this one are gone: what still uses it is a reader
      const auto time = static_cast<int64_t>(reverse ? chain.size() - 1 - i : i);
      ir::Value* const part = state_at(old, states, time, *fused);
      graph.replace_all_uses(old, part);
      std::swap(part->name, old->name);
    }
    erase_step(chain[i].nodes, fused);
  }
}

}  // namespace

PassInfo FuseRecurrentSteps::info() const {
  return PassInfo::extension("fuse-recurrent-steps", "Makes one operator of the steps of a quantized LSTM or GRU");
}

Result<Changed> FuseRecurrentSteps::run(ir::Graph& graph, PassContext& context) {
  std::vector<Chain> chains;
  std::unordered_map<const ir::Value*, size_t> ends;  // the state that a chain ends in
  std::unordered_map<const ir::Node*, size_t> positions;
  for (const auto& node : graph.nodes()) {
    positions.emplace(node.get(), positions.size());
    std::optional<Step> step = match(node.get());
    if (!step) {
      continue;
    }
    const auto end = ends.find(step->hidden);
    const bool goes_on = end != ends.end() && follows(context.program, chains[end->second], *step);
    const size_t index = goes_on ? end->second : chains.size();
    if (!goes_on) {
      chains.emplace_back();
    }
    ends[step->gates->result(0)] = index;
    chains[index].push_back(std::move(*step));
  }
  Changed changed = Changed::kNo;
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
