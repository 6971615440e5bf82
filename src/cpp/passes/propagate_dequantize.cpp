#include "passes/propagate_dequantize.h"

#include <algorithm>
#include <cmath>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/quantized_values.h"

namespace et::passes {
namespace {

constexpr std::string_view kPad = op::constant_pad_nd;

bool moves(const ir::Node& node) { return ops::moves_of(node.op) != ops::Moves::kNot; }

/// Gives more elements than it takes.
bool grows(const ir::Node& node) {
  const ops::Moves how = ops::moves_of(node.op);
  return how == ops::Moves::kRepeat || how == ops::Moves::kGather || how == ops::Moves::kPad;
}

/// Positions of the arguments whose elements the result has, or the largest of two.
std::vector<size_t> joined_arguments(const ir::Node& node) {
  const ops::OpInfo* op = ops::find_op(node.op);
  std::vector<size_t> positions;
  for (size_t i = 0; op != nullptr && i < op->arguments.size(); ++i) {
    if ((op->joins >> i & 1u) != 0) {
      positions.push_back(i);
    }
  }
  return positions;
}

/// Whether zeros of the result are no elements of the argument: integers have their zero point there.
bool adds_zeros(const ir::Node& node) {
  if (node.op == op::im2col) {
    const auto padding = ints_of(ops::Im2col(node).padding());
    return !padding || std::any_of(padding->begin(), padding->end(), [](int64_t size) { return size != 0; });
  }
  return ops::moves_of(node.op) == ops::Moves::kMask;
}

bool takes(const ir::Node& node, ScalarType dtype) {
  const ops::OpInfo* op = ops::find_op(node.op);
  return op != nullptr && (op->dtypes == 0 || op->supports(dtype));
}

bool is_floats(const ir::Value& value) {
  return value.type.is_tensor() && value.type.tensor.dtype == ScalarType::Float;
}

/// Whether all that reads the floats of a node quantizes them, behind what hands their elements on at most.
bool is_quantized_only(const ir::Node& node) {
  for (const auto& result : node.results()) {
    if (!is_floats(*result)) {
      continue;
    }
    const auto& users = result->users();
    const auto quantizes = [&](const ir::Node* user) {
      const bool hands_on = moves(*user) && user->args()[0].value() == result.get();
      return user->op == kQuantizePerTensor || (hands_on && is_quantized_only(*user));
    };
    if (node.graph()->is_output(result.get()) || users.empty() || !std::all_of(users.begin(), users.end(), quantizes)) {
      return false;
    }
  }
  return true;
}

ir::Type as_integers(const ir::Value& value, ScalarType dtype) {
  ir::Type type = value.type;
  type.tensor.dtype = dtype;
  return type;
}

/// dequantize_per_tensor(integers) before `before`, typed and called as `like`.
ir::Value* dequantized(const Activation& parameters, ir::Value* integers, const ir::Value& like, ir::Node& before) {
  ir::Node* node = create_like(before, kDequantizePerTensor,
                               {{integers},
                                {parameters.scale},
                                {parameters.zero_point},
                                {parameters.quant_min},
                                {parameters.quant_max},
                                {static_cast<int64_t>(parameters.dtype)},
                                {}});
  return node->add_result(like.name, like.type);
}

/// Makes `node` again with other arguments, on integers, and dequantizes each result that has elements of its argument.
void move_integers(ir::Node* node, std::vector<ir::Argument> args, const Activation& parameters) {
  ir::Graph& graph = *node->graph();
  ir::Node* moved = create_like(*node, node->op, std::move(args));
  for (const auto& result : node->results()) {
    moved->add_result(result->name + "_integers",
                      is_floats(*result) ? as_integers(*result, parameters.dtype) : result->type);
  }
  for (size_t i = 0; i < node->results().size(); ++i) {
    if (!is_floats(*node->result(i))) {
      graph.replace_all_uses(node->result(i), moved->result(i));
      std::swap(moved->result(i)->name, node->result(i)->name);
    } else if (!graph.is_unused(node->result(i))) {
      ir::Value* floats = dequantized(parameters, moved->result(i), *node->result(i), *node);
      graph.replace_all_uses(node->result(i), floats);
      std::swap(floats->name, node->result(i)->name);
    }
  }
  moved->absorb(*node);
  graph.erase(node);
}

bool has_integers(const ir::Node& node, size_t argument, std::optional<Activation>* activation) {
  *activation = activation_of(node.args()[argument]);
  return activation->has_value();
}

bool move_single(ir::Node* node) {
  std::optional<Activation> activation;
  if (!moves(*node) || !has_integers(*node, 0, &activation) || !takes(*node, activation->dtype) ||
      (grows(*node) && !is_quantized_only(*node)) || (activation->zero_point != 0 && adds_zeros(*node))) {
    return false;
  }
  std::vector<ir::Argument> args = node->args();
  args[0] = {activation->integers};
  move_integers(node, std::move(args), *activation);
  return true;
}

/// dequantize(q) times a number has another scale. What is quantized again is left to fuse-quantized.
bool move_factor(const ir::Program& program, ir::Node* node) {
  for (size_t input = 0; input < std::min<size_t>(node->args().size(), 2); ++input) {
    std::optional<Activation> activation = activation_of(node->args()[input]);
    const std::optional<double> factor = activation ? factor_of(program, *node, input) : std::nullopt;
    if (!factor || node->args()[input].value()->type.tensor != node->result()->type.tensor ||
        is_quantized_only(*node)) {
      continue;
    }
    activation->scale *= *factor;
    if (is_scale(activation->scale)) {
      ir::Value* floats = dequantized(*activation, activation->integers, *node->result(), *node);
      replace_node(node, floats->producer());
      return true;
    }
  }
  return false;
}

/// Quantizes what a quantized operator would give before it is only given another shape or order.
bool move_quantize(ir::Node* node) {
  ir::Value* const moved = node->op == kQuantizePerTensor ? node->args()[0].value() : nullptr;
  ir::Node* const mover = moved == nullptr ? nullptr : moved->producer();
  const ops::Moves how = mover == nullptr ? ops::Moves::kNot : ops::moves_of(mover->op);
  if ((how != ops::Moves::kReshape && how != ops::Moves::kPermute) || mover->results().size() != 1 ||
      mover->tag != node->tag || mover->graph() != node->graph() || !is_only_use(moved, node)) {
    return false;
  }
  const ir::Value* const source = mover->args()[0].value();
  const ir::Node* const computed = source == nullptr ? nullptr : source->producer();
  if (computed == nullptr || computed->op == kDequantizePerTensor || !is_floats(*source) ||
      !is_only_use(source, mover) || !takes(*mover, node->result()->type.tensor.dtype)) {
    return false;
  }
  std::vector<ir::Argument> args = node->args();
  args[0] = mover->args()[0];
  ir::Node* quantize = create_like(*mover, node->op, std::move(args));
  ir::Value* integers =
      quantize->add_result(source->name + "_integers", as_integers(*source, node->result()->type.tensor.dtype));
  args = mover->args();
  args[0] = {integers};
  ir::Node* moving = create_like(*mover, mover->op, std::move(args));
  moving->add_result(node->result()->name, node->result()->type);
  ir::Graph& graph = *node->graph();
  graph.replace_all_uses(node->result(), moving->result());
  std::swap(moving->result()->name, node->result()->name);
  quantize->absorb(*mover);
  moving->absorb(*node);  // its result is what `node` gave, in this order
  graph.erase(node);
  graph.erase(mover);
  move_quantize(quantize);
  return true;
}

/// What quantize_per_tensor makes of a number other than NaN.
int64_t integer_of(double number, const Activation& parameters) {
  const float steps = static_cast<float>(number) * (1.0F / static_cast<float>(parameters.scale));
  const auto low = static_cast<float>(parameters.quant_min - parameters.zero_point);
  const auto high = static_cast<float>(parameters.quant_max - parameters.zero_point);
  return std::lrint(std::min(std::max(steps, low), high)) + parameters.zero_point;
}

bool is_zero(const ir::Program& program, const ir::Argument& element) {
  const ir::Constant* constant = constant_of(program, element);
  if (constant == nullptr) {
    return number_of(element) == 0.0;
  }
  const std::vector<double> values = numbers_of(*constant);
  return !values.empty() && std::all_of(values.begin(), values.end(), [](double value) { return value == 0; });
}

/// Whether a node is a function of one tensor, of which fuse-quantized makes a table.
bool is_function_of_one(const ir::Program& program, const ir::Node& node) {
  const auto is_number = [&](const ir::Argument& argument) {
    const ir::Constant* constant = constant_of(program, argument);
    return constant != nullptr && constant->type.numel() == 1;
  };
  return is_one_of(node.op, {op::maximum, op::minimum}) &&
         (is_number(ops::Maximum(node).self()) || is_number(ops::Maximum(node).other()));
}

/// The parameters that elements from several places get: those that all have, or those of the one that quantizes the
/// result. Then quantizing before is the same as behind, whatever the elements are.
std::optional<Activation> common_parameters(const ir::Program& program, const ir::Node& node,
                                            const std::vector<ir::Argument>& elements) {
  std::optional<Activation> found;
  bool fit = true;
  for (const ir::Argument& element : elements) {
    const std::optional<Activation> own = activation_of(element);
    fit = fit && (own ? !found || own->same_parameters(*found) : is_zero(program, element));
    found = found ? found : own;
  }
  if (!found || fit) {
    return found;
  }
  const bool has_one_user = is_quantized_only(node) && node.result()->users().size() == 1;
  return has_one_user ? affine_of(*node.result()->users().front()) : std::nullopt;
}

/// An element as integers with these parameters.
ir::Argument as_element(const ir::Argument& element, const Activation& parameters, const ir::Node& node) {
  if (const auto number = number_of(element)) {
    return {integer_of(*number, parameters)};
  }
  const std::optional<Activation> own = activation_of(element);
  if (own && own->same_parameters(parameters)) {
    return {own->integers};
  }
  ir::Value* floats = element.value();
  ir::Node* quantize = create_like(node, kQuantizePerTensor,
                                   {{floats},
                                    {parameters.scale},
                                    {parameters.zero_point},
                                    {parameters.quant_min},
                                    {parameters.quant_max},
                                    {static_cast<int64_t>(parameters.dtype)}});
  return {quantize->add_result(floats->name + "_rescaled", as_integers(*floats, parameters.dtype))};
}

bool move_joined(const ir::Program& program, ir::Node* node) {
  const std::vector<size_t> joined = joined_arguments(*node);
  if (joined.empty() || is_function_of_one(program, *node)) {
    return false;
  }
  std::vector<ir::Argument> elements;
  for (const ir::Argument* argument : elements_of(*node)) {
    const auto* list = argument->as<ir::Argument::List>();
    if (list == nullptr) {
      elements.push_back(*argument);
    } else {
      elements.insert(elements.end(), list->begin(), list->end());
    }
  }
  const bool all_floats = std::all_of(elements.begin(), elements.end(), [](const ir::Argument& element) {
    const std::optional<double> number = number_of(element);
    return element.is_value() ? is_floats(*element.value()) : number && !std::isnan(*number);
  });
  const std::optional<Activation> target = all_floats ? common_parameters(program, *node, elements) : std::nullopt;
  if (!target || !takes(*node, target->dtype) || (node->op == kPad && !is_quantized_only(*node))) {
    return false;
  }
  std::vector<ir::Argument> args = node->args();
  for (const size_t position : joined) {
    if (const auto* list = args[position].as<ir::Argument::List>()) {
      ir::Argument::List integers;
      for (const ir::Argument& element : *list) {
        integers.push_back(as_element(element, *target, *node));
      }
      args[position] = {std::move(integers)};
    } else {
      args[position] = as_element(args[position], *target, *node);
    }
  }
  move_integers(node, std::move(args), *target);
  return true;
}

/// permute(dequantize_per_channel(constant, …, axis, …)): the axis goes where the permutation brings it.
bool move_weight(ir::Node* node) {
  if (!is_one_of(node->op, {op::permute_copy, op::permute})) {
    return false;
  }
  const ops::Permute permute(*node);
  ir::Node* dequantize = producer_if(permute.self(), {kDequantizePerChannel});
  const auto dims = ints_of(permute.dims());
  if (dequantize == nullptr || !dequantize->tag.empty() || !dims) {
    return false;
  }
  const ops::QuantizedDecomposedDequantizePerChannel of_channels(*dequantize);
  const auto rank = static_cast<int64_t>(dims->size());
  const auto axis = int_of(of_channels.axis());
  ir::Value* integers = of_channels.input().value();
  if (producer_if(of_channels.input(), {"constant"}) == nullptr) {
    return false;
  }
  if (!axis || rank == 0) {
    return false;
  }
  const auto place = std::find_if(dims->begin(), dims->end(),
                                  [&](int64_t dim) { return (dim + rank) % rank == (*axis + rank) % rank; });
  if (place == dims->end()) {
    return false;
  }
  ir::Node* moved = create_like(*node, node->op, {{integers}, permute.dims()});
  moved->add_result(node->result()->name + "_integers", as_integers(*node->result(), integers->type.tensor.dtype));
  std::vector<ir::Argument> args = dequantize->args();
  using namespace ops::arguments::quantized_decomposed_dequantize_per_channel;
  args[kInput] = {moved->result()};
  args[kAxis] = {static_cast<int64_t>(place - dims->begin())};
  ir::Node* created = create_like(*node, kDequantizePerChannel, std::move(args));
  created->add_result(node->result()->name, node->result()->type);
  replace_node(node, created);
  return true;
}

}  // namespace

std::vector<const ir::Argument*> elements_of(const ir::Node& node) {
  if (moves(node)) {
    return {&node.args()[0]};
  }
  std::vector<const ir::Argument*> elements;
  for (const size_t position : joined_arguments(node)) {
    elements.push_back(&node.args()[position]);
  }
  return elements;
}

bool joins_tensors(const ir::Node& node) { return !joined_arguments(node).empty() && node.op != kPad; }

PassInfo PropagateDequantize::info() const {
  return PassInfo::extension("propagate-dequantize", "Moves integers instead of the floats that they stand for");
}

Result<Changed> PropagateDequantize::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    return node->tag.empty() && !node->args().empty() && !node->results().empty() &&
           (move_joined(context.program, node) || move_factor(context.program, node) || move_weight(node) ||
            move_quantize(node) || move_single(node));
  });
}

}  // namespace et::passes
