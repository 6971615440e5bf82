#include "passes/propagate_dim_order.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

// How an operator sees the order of images.
enum class Manner : uint8_t {
  kRowMajor,      ///< wants what ATen says: reshapes, products, whatever is not in a list below
  kChannelsLast,  ///< computes with channels innermost, transposes otherwise
  kAny,           ///< takes any order, if all its images share it
};

bool has_layout(std::string_view name, ops::Layout layout) {
  const ops::OpInfo* op = ops::find_op(name);
  return op != nullptr && op->layout == layout;
}

bool wants_channels_last(std::string_view op) { return has_layout(op, ops::Layout::kChannelsLast); }

/// A reduction of images over all spatial dims (global pooling). Without `keepdim` its result is no image.
bool reduces_pixels(const ir::Node& node, bool keepdim) {
  const bool is_integer_mean = node.op == op::et_quantized_mean;
  if (!is_integer_mean && !is_one_of(node.op, {op::mean_dim, op::sum_dim_IntList, op::amax, op::amin})) {
    return false;
  }
  const auto rank = static_cast<int64_t>(node.args()[0].value()->type.tensor.rank());
  const auto dims = ints_of(is_integer_mean ? ops::EtQuantizedMean(node).dim() : ops::MeanDim(node).dim());
  const auto kept = int_of(is_integer_mean ? ops::EtQuantizedMean(node).keepdim() : ops::MeanDim(node).keepdim());
  return dims && kept == int64_t{keepdim} && static_cast<int64_t>(dims->size()) + 2 == rank &&
         std::all_of(dims->begin(), dims->end(), [&](int64_t dim) { return (dim + rank) % rank >= 2; });
}

bool takes_any_order(const ir::Node& node) {
  if (has_layout(node.op, ops::Layout::kAny) || reduces_pixels(node, /*keepdim=*/true)) {
    return true;
  }
  const ops::OpInfo* op = ops::find_op(node.op);
  return op != nullptr && op->has_tag(ops::kPointwise) && !op->has_tag(ops::kRandom);
}

size_t image_rank(const ir::Value& value) {
  const size_t rank = value.type.is_tensor() ? value.type.tensor.rank() : 0;
  return rank >= 3 && rank <= 5 && value.type.tensor.is_row_major() && value.type.tensor.is_bounded() ? rank : 0;
}

bool is_one(const ir::Dim& dim) { return dim.is_static() && dim.min == 1; }

/// Both orders are the same bytes: one channel, or one pixel.
bool is_free(const ir::TensorType& type) {
  return is_one(type.dims[1]) || std::all_of(type.dims.begin() + 2, type.dims.end(), is_one);
}

int64_t conversion_nbytes(const ir::Value& value) {
  return is_free(value.type.tensor) ? 0 : value.type.tensor.max_nbytes();
}

/// Where dimension i of the result comes from, for a permutation that brings the channels of an image to its end.
bool channels_go_last(const std::vector<int64_t>& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t expected = i == 0 ? 0 : i + 1 < rank ? i + 1 : 1;
    if ((dims[static_cast<size_t>(i)] + rank) % rank != expected) {
      return false;
    }
  }
  return true;
}

/// The other way: the last dimension becomes the channels.
bool last_becomes_channels(const std::vector<int64_t>& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t expected = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
    if ((dims[static_cast<size_t>(i)] + rank) % rank != expected) {
      return false;
    }
  }
  return true;
}

/// A filter of 3x3 for each channel, over rows that fill vectors: row-major images have a fast kernel, too.
bool is_fast_in_planes(const ops::Convolution& convolution, const ir::TensorType& result) {
  const std::vector<ir::Dim>& filter = convolution.weight().value()->type.tensor.dims;
  const auto stride = ints_of(convolution.stride());
  constexpr int64_t kLeastWidth = 12;
  return filter[1].max == 1 && filter[0].max == int_of(convolution.groups()) && filter[2].max == 3 &&
         filter[3].max == 3 && result.dims[3].max >= kLeastWidth &&
         (stride == std::vector<int64_t>{1, 1} || stride == std::vector<int64_t>{2, 2}) &&
         ints_of(convolution.dilation()) == std::vector<int64_t>{1, 1};
}

/// A convolution of images or lines for which kernels of channels last save more than the conversions take: in groups,
/// or of an image's windows that overlap. One of pixels is a product in either order.
bool is_faster_channels_last(const ir::Node& node) {
  if (!is_one_of(node.op, {op::convolution, op::et_convolution_clamp})) {
    return false;
  }
  const ops::Convolution convolution(node);  // the clamped one begins alike
  const std::vector<ir::Dim>& filter = convolution.weight().value()->type.tensor.dims;
  if (std::all_of(filter.begin() + 2, filter.end(), is_one)) {
    return false;
  }
  const bool has_groups = int_of(convolution.groups()) != 1;
  if (filter.size() == 4) {
    return !is_fast_in_planes(convolution, node.result()->type.tensor) &&
           (has_groups || ints_of(convolution.stride()) == std::vector<int64_t>{1, 1});
  }
  constexpr int64_t kShort = 9;  // taps of one filter a channel, which a line in its own order takes less time for
  return filter.size() == 3 && has_groups && int_of(convolution.transposed()) == 0 &&
         (filter[1].max != 1 || filter[2].max > kShort);
}

bool is_permutation(const ir::Node& node, bool (*kind)(const std::vector<int64_t>&)) {
  if (!is_one_of(node.op, {op::permute_copy, op::permute}) || image_rank(*node.result()) == 0 ||
      image_rank(*ops::Permute(node).self().value()) == 0) {
    return false;
  }
  const auto dims = ints_of(ops::Permute(node).dims());
  return dims && kind(*dims);
}

/// permute(image, [0, 2, 3, 1]): with channels innermost its bytes are the image's.
bool is_exit(const ir::Node& node) { return is_permutation(node, &channels_go_last); }
/// permute(rows of pixels, [0, 3, 1, 2]): their bytes are those of an image with channels innermost.
bool is_entrance(const ir::Node& node) { return is_permutation(node, &last_becomes_channels); }

/// The same type with channels innermost.
ir::TensorType channels_last(ir::TensorType type) {
  const auto rank = static_cast<uint8_t>(type.rank());
  type.dim_order = {0};
  for (uint8_t dim = 2; dim < rank; ++dim) {
    type.dim_order.push_back(dim);
  }
  type.dim_order.push_back(1);
  return type;
}

/// What an image of row-major order is the copy of, where that has its channels innermost (inputs may); or nullptr.
ir::Value* channels_last_source(const ir::Value& image) {
  const ir::Node* copy = image.producer();
  if (copy == nullptr || copy->op != op::dim_order_ops_clone_dim_order || image_rank(image) == 0) {
    return nullptr;
  }
  ir::Value* const source = copy->args()[0].value();
  return source->type.tensor == channels_last(image.type.tensor) ? source : nullptr;
}

class Regions {
 public:
  explicit Regions(ir::Graph& graph) : graph_(graph) {
    for (const auto& node : graph.nodes()) {
      add(*node);
    }
    for (const auto& node : graph.nodes()) {
      count(*node);
    }
  }

  bool convert() {
    bool changed = false;
    // Nodes are visited in order and added ones are no members, so the outcome depends on the graph alone.
    std::vector<ir::Value*> values;
    for (const auto& input : graph_.inputs()) {
      values.push_back(input.get());
    }
    for (const auto& node : graph_.nodes()) {
      for (const auto& result : node->results()) {
        values.push_back(result.get());
      }
    }
    for (ir::Value* value : values) {
      if (parents_.count(value) != 0 && is_worth_it(find(value))) {
        convert(value);
        changed = true;
      }
    }
    return changed;
  }

 private:
  struct Cost {
    int64_t row_major = 0;      ///< bytes that kernels transpose when the region stays as it is
    int64_t channels_last = 0;  ///< bytes that conversions at its borders transpose
    bool is_plain = false;      ///< row-major, it would get a plain kernel, which takes longer than conversions
    bool has_faster = false;    ///< has convolutions of floats whose fastest kernels take channels last only
  };

  static bool could_take_part(const ir::Node& node) {
    return !node.results().empty() && image_rank(*node.result()) != 0 && node.regions.empty() &&
           (wants_channels_last(node.op) || takes_any_order(node));
  }

  /// Operators at a border whose integers are fewer bytes to convert than their floats: conversions go to the other
  /// side of them.
  static bool stays_outside(const ir::Node& node) {
    if (node.op == op::quantized_decomposed_quantize_per_tensor) {
      const ir::Value& floats = *ops::QuantizedDecomposedQuantizePerTensor(node).input().value();
      return channels_last_source(floats) == nullptr &&
             (floats.producer() == nullptr || !could_take_part(*floats.producer()));
    }
    if (node.op == op::quantized_decomposed_dequantize_per_tensor) {
      const auto& users = node.result()->users();
      return std::none_of(users.begin(), users.end(), [](const ir::Node* user) { return could_take_part(*user); });
    }
    return false;
  }

  /// The images of a node that takes part in a region: arguments from this graph, and results. Empty when it does not.
  static std::vector<ir::Value*> images_of(const ir::Node& node) {
    std::vector<ir::Value*> images;
    if (!could_take_part(node) || stays_outside(node)) {
      return images;
    }
    const size_t rank = image_rank(*node.result());
    const auto add = [&](ir::Value* value) {
      if (image_rank(*value) == rank && value->graph() == node.graph() && !is_constant(*value)) {
        images.push_back(value);
      }
    };
    if (wants_channels_last(node.op)) {
      add(node.args()[0].value());  // filters are the kernel's business
    } else {
      node.for_each_input(add);
    }
    if (images.empty()) {
      return images;  // made of constants only
    }
    for (const auto& result : node.results()) {
      add(result.get());
    }
    return images;
  }

  static bool is_constant(const ir::Value& value) {
    return value.producer() != nullptr && is_one_of(value.producer()->op, {"constant", "buffer"});
  }

  void add(const ir::Node& node) {
    std::vector<ir::Value*> images = images_of(node);
    if (images.empty()) {
      return;
    }
    for (ir::Value* image : images) {
      parents_.emplace(image, image);
      parents_[find(image)] = find(images.front());
    }
    members_.insert(&node);
  }

  ir::Value* find(ir::Value* value) {
    while (parents_[value] != value) {
      value = parents_[value] = parents_[parents_[value]];
    }
    return value;
  }

  /// True when `user` uses `value` as one of its images.
  bool is_member_use(const ir::Node* user, const ir::Value* value) const {
    if (user->graph() != &graph_ || members_.count(user) == 0) {
      return false;
    }
    return !wants_channels_last(user->op) || user->args()[0].value() == value;
  }

  /// True for what costs nothing where its image has channels innermost: a permutation, a reduction to channels, or the
  /// range of all elements.
  bool is_exit_from(const ir::Node* user) const {
    return user->graph() == &graph_ &&
           (is_exit(*user) || reduces_pixels(*user, /*keepdim=*/false) ||
            is_one_of(user->op, {op::quantized_decomposed_choose_qparams_tensor,
                                 op::quantized_decomposed_choose_qparams_symmetric_tensor}));
  }

  bool is_made_inside(const ir::Value* value) const {
    return value->producer() != nullptr && (members_.count(value->producer()) != 0 ||
                                            (value->producer()->graph() == &graph_ && is_entrance(*value->producer())));
  }

  bool leaves(const ir::Value* value) const {
    return graph_.is_output(value) ||
           std::any_of(value->users().begin(), value->users().end(),
                       [&](const ir::Node* user) { return !is_member_use(user, value) && !is_exit_from(user); });
  }

  void count(const ir::Node& node) {
    const std::vector<ir::Value*> images = images_of(node);
    if (images.empty()) {
      return;
    }
    Cost& cost = costs_[find(images.front())];
    // Types that fast kernels exist for; the plain ones compute in any order.
    const ScalarType dtype = node.result()->type.tensor.dtype;
    const bool is_volume = node.result()->type.tensor.rank() == 5;
    const bool is_integer_pool =
        is_one_of(node.op, {op::max_pool2d, op::et_quantized_avg_pool2d, op::et_quantized_adaptive_avg_pool2d});
    const bool is_fast =
        !is_volume && (dtype == ScalarType::Float ||
                       (dtype == ScalarType::Char && (is_integer_pool || node.op == op::et_quantized_convolution)) ||
                       (dtype == ScalarType::Byte && is_integer_pool));
    // Convolutions of floats transpose their images; those of integers take no other order.
    const bool is_integer =
        node.op == op::et_dynamic_convolution || (node.op == op::et_quantized_convolution && !is_volume &&
                                                  int_of(ops::EtQuantizedConvolution(node).transposed()) == 0);
    cost.is_plain |= is_fast && is_integer;
    if (wants_channels_last(node.op) && is_fast) {
      cost.row_major += conversion_nbytes(*node.args()[0].value()) + conversion_nbytes(*node.result());
      cost.has_faster |= is_faster_channels_last(node);
    }
    for (ir::Value* image : images) {
      if (!seen_.insert(image).second) {
        continue;
      }
      const bool has_source = channels_last_source(*image) != nullptr;
      const bool crosses = is_made_inside(image) ? leaves(image) : !has_source;
      cost.channels_last += crosses ? conversion_nbytes(*image) : 0;
      if (has_source || (image->producer() != nullptr && is_entrance(*image->producer()))) {
        cost.row_major += conversion_nbytes(*image);
      }
      for (const ir::Node* user : image->users()) {
        cost.row_major += is_exit_from(user) && is_exit(*user) ? conversion_nbytes(*image) : 0;
      }
    }
  }

  bool is_worth_it(const ir::Value* region) {
    const Cost& cost = costs_[region];
    return cost.is_plain || cost.channels_last < cost.row_major ||
           (cost.has_faster && cost.channels_last == cost.row_major && cost.row_major > 0);
  }

  static ir::Node* conversion(ir::Graph& graph, ir::Value* from, ir::TensorType type, ir::Node* before,
                              const char* suffix) {
    ir::Node* node = graph.create_node(op::dim_order_ops_clone_dim_order, {}, before);
    serve_maker(node, from);
    node->add_result(from->name + suffix, ir::Type::of(std::move(type)));
    return node;
  }

  /// Replaces `from` by `to` in the arguments of `user`.
  static void replace_in(ir::Node* user, const ir::Value* from, ir::Value* to, bool only_first) {
    const size_t count = only_first ? 1 : user->args().size();
    for (size_t i = 0; i < count; ++i) {
      ir::Argument argument = user->args()[i];
      if (argument.value() == from) {
        user->set_arg(i, {to});
      } else if (auto* list = std::get_if<ir::Argument::List>(&argument.data)) {
        for (ir::Argument& item : *list) {
          if (item.value() == from) {
            item.data = to;
          }
        }
        user->set_arg(i, std::move(argument));
      }
    }
  }

  /// Brings one value of a region into its order: what is made inside is made so, and converted for uses outside; what
  /// comes from outside is converted for uses inside.
  void convert(ir::Value* value) {
    const ir::TensorType row_major = value->type.tensor;
    const bool made_inside = is_made_inside(value);
    const std::vector<ir::Node*> users = value->users();
    ir::Node* first = graph_.nodes().empty() ? nullptr : graph_.nodes().front().get();
    ir::Node* after = value->producer() == nullptr ? first : graph_.next(value->producer());
    if (!made_inside) {
      const ir::TensorType type = channels_last(row_major);
      ir::Value* const source = channels_last_source(*value);
      ir::Node* const enter = source != nullptr ? nullptr : conversion(graph_, value, type, after, "_channels_last");
      for (ir::Node* user : users) {
        if (is_member_use(user, value) || is_exit_from(user)) {
          replace_in(user, value, source != nullptr ? source : enter->result(), wants_channels_last(user->op));
        }
      }
      if (enter != nullptr) {
        enter->set_args({{value}, {false}, order_argument(type)});
      } else if (value->users().empty() && !graph_.is_output(value)) {
        graph_.erase(value->producer());
      }
      return;
    }
    const bool crosses = leaves(value);
    value->type.tensor = channels_last(row_major);
    set_order_argument(*value->producer(), value->type.tensor);
    if (!crosses) {
      return;
    }
    ir::Node* leave = conversion(graph_, value, row_major, after, "_row_major");
    ir::Value* converted = leave->result();
    // Everything, then the uses inside back again.
    graph_.replace_all_uses(value, converted);
    for (ir::Node* user : users) {
      if (is_member_use(user, converted) || is_member_use(user, value) || is_exit_from(user)) {
        replace_in(user, converted, value, wants_channels_last(user->op));
      }
    }
    leave->set_args({{value}, {false}, order_argument(row_major)});
  }

  /// Operators that name the order of their result.
  static void set_order_argument(ir::Node& node, const ir::TensorType& type) {
    if (node.op == op::dim_order_ops_to_dim_order_copy) {
      node.set_arg(node.args().size() - 1, order_argument(type));
    }
  }

  ir::Graph& graph_;
  // Looked up, never walked through.
  std::unordered_map<ir::Value*, ir::Value*> parents_;
  std::unordered_map<const ir::Value*, Cost> costs_;
  std::unordered_set<const ir::Node*> members_;
  std::unordered_set<const ir::Value*> seen_;
};

}  // namespace

PassInfo PropagateDimOrder::info() const {
  return PassInfo::extension("propagate-dim-order", "Lets regions of image operators run with channels innermost");
}

Result<Changed> PropagateDimOrder::run(ir::Graph& graph, PassContext& context) {
  return context.options.channels_last && Regions(graph).convert() ? Changed::kYes : Changed::kNo;
}

}  // namespace et::passes
