#include "passes/propagate_dequantize.h"

#include <algorithm>

#include "passes/quantized_values.h"

namespace et::passes {
namespace {

/// Operators whose results are elements of their first argument, or the largest of some of them.
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
    {"aten::expand", true},
    {"aten::expand_copy", true},
    {"aten::repeat", true},
    {"aten::upsample_nearest2d.vec", true},
};

constexpr std::string_view kPad = "aten::constant_pad_nd";
constexpr std::string_view kCat = "aten::cat";

const Mover* find_mover(std::string_view op) {
  const auto* found = std::find_if(std::begin(kMovers), std::end(kMovers), [&](const Mover& m) { return m.op == op; });
  return found == std::end(kMovers) ? nullptr : found;
}

bool takes(const ir::Node& node, ScalarType dtype) {
  const ops::OpInfo* op = ops::find_op(node.op);
  return op != nullptr && (op->dtypes == 0 || op->supports(dtype));
}

bool is_quantized_only(const ir::Node& node) {
  for (const auto& result : node.results()) {
    const auto& users = result->users();
    if (node.graph()->is_output(result.get()) || users.empty() ||
        !std::all_of(users.begin(), users.end(), [](const ir::Node* user) { return user->op == kQuantizePerTensor; })) {
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

/// Makes `node` again with other arguments, on integers, and dequantizes each result.
void move_integers(ir::Node* node, std::vector<ir::Argument> args, const Activation& parameters) {
  ir::Graph& graph = *node->graph();
  ir::Node* moved = create_like(*node, node->op, std::move(args));
  for (const auto& result : node->results()) {
    moved->add_result(result->name + "_integers", as_integers(*result, parameters.dtype));
  }
  for (size_t i = 0; i < node->results().size(); ++i) {
    if (!graph.is_unused(node->result(i))) {
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
  const auto* list = node->op == kCat ? node->args()[0].as<ir::Argument::List>() : nullptr;
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
  return node.op == kPad || node.op == kCat || find_mover(node.op) != nullptr;
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
