#include "passes/propagate_dequantize.h"

#include <algorithm>

#include "passes/quantized_values.h"

namespace et::passes {
namespace {

/// Operators whose results are elements of their first argument, or the largest of some of them; places of these may be a
/// second result.
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
    {"aten::index_select", true},
    {"aten::index.Tensor", true},
    {"aten::gather", true},
};

constexpr std::string_view kPad = "aten::constant_pad_nd";
/// Of a list of tensors.
constexpr std::string_view kCat = "aten::cat";
constexpr std::string_view kStack = "aten::stack";

const Mover* find_mover(std::string_view op) {
  const auto* found = std::find_if(std::begin(kMovers), std::end(kMovers), [&](const Mover& m) { return m.op == op; });
  return found == std::end(kMovers) ? nullptr : found;
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
  const bool pads = node->op == kPad && number_of(node->args()[2]) == 0.0;
  std::optional<Activation> activation;
  if ((mover == nullptr && !pads) || !has_integers(*node, 0, &activation) || !takes(*node, activation->dtype) ||
      ((pads || mover->grows) && !is_quantized_only(*node))) {
    return false;
  }
  std::vector<ir::Argument> args = node->args();
  args[0] = {activation->integers};
  if (pads) {
    args[2] = {activation->zero_point};
  }
  move_integers(node, std::move(args), *activation);
  return true;
}

bool move_cat(ir::Node* node) {
  const bool joins = node->op == kCat || node->op == kStack;
  const auto* list = joins ? node->args()[0].as<ir::Argument::List>() : nullptr;
  if (list == nullptr || list->empty()) {
    return false;
  }
  std::vector<Activation> parts;
  for (const ir::Argument& item : *list) {
    const std::optional<Activation> part = activation_of(item);
    if (!part) {
      return false;
    }
    parts.push_back(*part);
  }
  std::optional<Activation> target = parts.front();
  const auto differs = [&](const Activation& part) { return !part.same_parameters(*target); };
  if (std::any_of(parts.begin(), parts.end(), differs)) {
    if (!is_quantized_only(*node) || node->result()->users().size() != 1) {
      return false;
    }
    target = affine_of(*node->result()->users().front());
    if (!target) {
      return false;
    }
  }
  if (!takes(*node, target->dtype)) {
    return false;
  }
  ir::Argument::List integers;
  for (size_t i = 0; i < parts.size(); ++i) {
    ir::Value* part = parts[i].integers;
    if (differs(parts[i])) {
      ir::Value* floats = (*list)[i].value();
      ir::Node* quantize = create_like(*node, kQuantizePerTensor,
                                       {{floats},
                                        {target->scale},
                                        {target->zero_point},
                                        {target->quant_min},
                                        {target->quant_max},
                                        {static_cast<int64_t>(target->dtype)}});
      part = quantize->add_result(floats->name + "_rescaled", as_integers(*floats, target->dtype));
    }
    integers.push_back({part});
  }
  std::vector<ir::Argument> args = node->args();
  args[0] = {std::move(integers)};
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

bool only_moves_elements(const ir::Node& node) {
  return node.op == kPad || node.op == kCat || node.op == kStack || find_mover(node.op) != nullptr;
}

PassInfo PropagateDequantize::info() const {
  return PassInfo::extension("propagate-dequantize", "Moves integers instead of the floats that they stand for");
}

Result<Changed> PropagateDequantize::run(ir::Graph& graph, PassContext&) {
  return rewrite_each(graph, [](ir::Node* node) {
    return node->tag.empty() && !node->args().empty() && !node->results().empty() &&
           (move_cat(node) || move_weight(node) || move_single(node));
  });
}

}  // namespace et::passes
