#include "passes/propagate_dequantize.h"

#include <algorithm>
#include <cmath>

#include "passes/quantized_values.h"

namespace et::passes {
namespace {

/// Operators whose results are elements of their first argument, or the largest of some of them; places of these may be
/// a second result.
struct Mover {
  std::string_view op;
  bool grows = false;  ///< gives more elements than it takes
};
constexpr Mover kMovers[] = {
    {"aten::view"},
    {"aten::view_copy"},
    {"aten::reshape"},
    {"aten::_unsafe_view"},
    {"aten::permute"},
    {"aten::permute_copy"},
    {"aten::transpose.int"},
    {"aten::transpose_copy.int"},
    {"aten::t"},
    {"aten::t_copy"},
    {"aten::unsqueeze"},
    {"aten::unsqueeze_copy"},
    {"aten::squeeze.dim"},
    {"aten::squeeze.dims"},
    {"aten::squeeze_copy.dim"},
    {"aten::squeeze_copy.dims"},
    {"aten::slice.Tensor"},
    {"aten::slice_copy.Tensor"},
    {"aten::select.int"},
    {"aten::select_copy.int"},
    {"aten::split.Tensor"},
    {"aten::split_copy.Tensor"},
    {"aten::split_with_sizes"},
    {"aten::split_with_sizes_copy"},
    {"aten::unbind.int"},
    {"aten::unbind_copy.int"},
    {"aten::clone"},
    {"aten::alias"},
    {"aten::alias_copy"},
    {"aten::detach"},
    {"aten::flip"},
    {"aten::pixel_shuffle"},
    {"aten::pixel_unshuffle"},
    {"aten::max_pool2d"},
    {"aten::max_pool3d"},
    {"aten::max_pool2d_with_indices"},
    {"aten::adaptive_max_pool2d"},
    {"aten::adaptive_max_pool3d"},
    {"aten::amax"},
    {"aten::amin"},
    {"aten::max.dim"},
    {"aten::min.dim"},
    {"aten::topk"},
    {"aten::sort"},
    {"aten::channel_shuffle"},
    {"aten::roll"},
    {"aten::rot90"},
    {"aten::diagonal_copy"},
    {"aten::triu"},
    {"aten::tril"},
    {"aten::expand", true},
    {"aten::expand_copy", true},
    {"aten::repeat", true},
    {"aten::upsample_nearest1d.vec", true},
    {"aten::upsample_nearest2d.vec", true},
    {"aten::upsample_nearest3d.vec", true},
    {"aten::_upsample_nearest_exact1d.vec", true},
    {"aten::_upsample_nearest_exact2d.vec", true},
    {"aten::_upsample_nearest_exact3d.vec", true},
    {"aten::reflection_pad1d", true},
    {"aten::reflection_pad2d", true},
    {"aten::reflection_pad3d", true},
    {"aten::replication_pad1d", true},
    {"aten::replication_pad2d", true},
    {"aten::replication_pad3d", true},
    {"aten::unfold_copy", true},
    {"aten::im2col", true},
    {"aten::index_select", true},
    {"aten::index.Tensor", true},
    {"aten::gather", true},
};

/// Operators whose results are elements of several tensors and numbers, or the largest of two.
struct Joiner {
  std::string_view op;
  size_t first, second;  ///< arguments that hold the elements; twice the same where it is one, a list
};
constexpr std::string_view kPad = "aten::constant_pad_nd";
constexpr Joiner kJoiners[] = {
    {"aten::cat", 0, 0},
    {"aten::stack", 0, 0},
    {"aten::maximum", 0, 1},
    {"aten::minimum", 0, 1},
    {"aten::where.self", 1, 2},
    {"aten::masked_fill.Scalar", 0, 2},
    {"aten::masked_fill.Tensor", 0, 2},
    {kPad, 0, 2},
};

template <typename Row, size_t N>
const Row* find_row(const Row (&rows)[N], std::string_view op) {
  const auto* found = std::find_if(std::begin(rows), std::end(rows), [&](const Row& row) { return row.op == op; });
  return found == std::end(rows) ? nullptr : found;
}
const Mover* find_mover(std::string_view op) { return find_row(kMovers, op); }
const Joiner* find_joiner(std::string_view op) { return find_row(kJoiners, op); }

/// Whether zeros of the result are no elements of the argument: integers have their zero point there.
bool adds_zeros(const ir::Node& node) {
  if (node.op == "aten::im2col") {
    const auto padding = ints_of(node.args()[3]);
    return !padding || std::any_of(padding->begin(), padding->end(), [](int64_t size) { return size != 0; });
  }
  return is_one_of(node.op, {"aten::triu", "aten::tril"});
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
      const bool hands_on = find_mover(user->op) != nullptr && user->args()[0].value() == result.get();
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
  const Mover* mover = find_mover(node->op);
  std::optional<Activation> activation;
  if (mover == nullptr || !has_integers(*node, 0, &activation) || !takes(*node, activation->dtype) ||
      (mover->grows && !is_quantized_only(*node)) || (activation->zero_point != 0 && adds_zeros(*node))) {
    return false;
  }
  std::vector<ir::Argument> args = node->args();
  args[0] = {activation->integers};
  move_integers(node, std::move(args), *activation);
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
  return is_one_of(node.op, {"aten::maximum", "aten::minimum"}) &&
         (is_number(node.args()[0]) || is_number(node.args()[1]));
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
  if (find_joiner(node->op) == nullptr || is_function_of_one(program, *node)) {
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
  ir::Argument::List integers;
  for (const ir::Argument& element : elements) {
    integers.push_back(as_element(element, *target, *node));
  }
  std::vector<ir::Argument> args = node->args();
  const Joiner& joiner = *find_joiner(node->op);
  if (joiner.first == joiner.second) {
    args[joiner.first] = {std::move(integers)};
  } else {
    args[joiner.first] = integers[0];
    args[joiner.second] = integers[1];
  }
  move_integers(node, std::move(args), *target);
  return true;
}

/// permute(dequantize_per_channel(constant, …, axis, …)): the axis goes where the permutation brings it.
bool move_weight(ir::Node* node) {
  if (!is_one_of(node->op, {"aten::permute_copy", "aten::permute"})) {
    return false;
  }
  ir::Node* dequantize = producer_if(node->args()[0], {kDequantizePerChannel});
  const auto dims = ints_of(node->args()[1]);
  if (dequantize == nullptr || !dequantize->tag.empty() || !dims ||
      producer_if(dequantize->args()[0], {"constant"}) == nullptr) {
    return false;
  }
  const auto rank = static_cast<int64_t>(dims->size());
  const auto axis = int_of(dequantize->args()[3]);
  ir::Value* integers = dequantize->args()[0].value();
  if (!axis || rank == 0) {
    return false;
  }
  const auto place = std::find_if(dims->begin(), dims->end(),
                                  [&](int64_t dim) { return (dim + rank) % rank == (*axis + rank) % rank; });
  if (place == dims->end()) {
    return false;
  }
  ir::Node* moved = create_like(*node, node->op, {{integers}, node->args()[1]});
  moved->add_result(node->result()->name + "_integers", as_integers(*node->result(), integers->type.tensor.dtype));
  std::vector<ir::Argument> args = dequantize->args();
  args[0] = {moved->result()};
  args[3] = {static_cast<int64_t>(place - dims->begin())};
  ir::Node* created = create_like(*node, kDequantizePerChannel, std::move(args));
  created->add_result(node->result()->name, node->result()->type);
  replace_node(node, created);
  return true;
}

}  // namespace

std::vector<const ir::Argument*> elements_of(const ir::Node& node) {
  if (find_mover(node.op) != nullptr) {
    return {&node.args()[0]};
  }
  const Joiner* joiner = find_joiner(node.op);
  if (joiner == nullptr) {
    return {};
  }
  const ir::Argument* first = &node.args()[joiner->first];
  return joiner->first == joiner->second ? std::vector{first} : std::vector{first, &node.args()[joiner->second]};
}

bool joins_tensors(const ir::Node& node) { return find_joiner(node.op) != nullptr && node.op != kPad; }

PassInfo PropagateDequantize::info() const {
  return PassInfo::extension("propagate-dequantize", "Moves integers instead of the floats that they stand for");
}

Result<Changed> PropagateDequantize::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    return node->tag.empty() && !node->args().empty() && !node->results().empty() &&
           (move_joined(context.program, node) || move_weight(node) || move_single(node));
  });
}

}  // namespace et::passes
