#include "passes/fuse_separable_convolution.h"

#include <algorithm>

#include "ops/arguments.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

using namespace ops::arguments::et_convolution_clamp;

/// Bytes of an image that is worth keeping in the cache.
constexpr int64_t kLeastNbytes = 1 << 20;

bool has_items(const ir::Argument& list, int64_t a, int64_t b) {
  const auto items = ints_of(list);
  return items && !items->empty() && std::all_of(items->begin(), items->end(), [&](int64_t item) {
           return (item == a || item == b) && item == items->front();
         });
}

bool is_image(const ir::Value& value) {
  if (!value.type.is_tensor()) {
    return false;
  }
  const ir::TensorType& type = value.type.tensor;
  const std::vector<uint8_t> channels_last = {0, 2, 3, 1};
  return type.dtype == ScalarType::Float && type.rank() == 4 && type.dim_order == channels_last && type.is_static();
}

int64_t size_of(const ir::Value& value, size_t dim) { return value.type.tensor.dims[dim].min; }

/// A convolution of such images with constant filters, not transposed, without dilation.
bool is_convolution(const ir::Program& program, const ir::Node& node) {
  if (!is_one_of(node.op, {op::convolution, op::et_convolution_clamp})) {
    return false;
  }
  const ir::Constant* const weight = constant_of(program, node.args()[kWeight]);
  const ir::Argument& bias = node.args()[kBias];
  return is_image(*node.args()[kInput].value()) && is_image(*node.result()) && weight != nullptr &&
         weight->type.dtype == ScalarType::Float && weight->type.rank() == 4 &&
         (bias.is_none() || constant_of(program, bias) != nullptr) && has_items(node.args()[kDilation], 1, 1) &&
         int_of(node.args()[kTransposed]) == 0;
}

bool is_pixel_convolution(const ir::Program& program, const ir::Node& node) {
  if (!is_convolution(program, node)) {
    return false;
  }
  const ir::Value& weight = *node.args()[kWeight].value();
  return size_of(weight, 2) == 1 && size_of(weight, 3) == 1 && has_items(node.args()[kStride], 1, 1) &&
         has_items(node.args()[kPadding], 0, 0) && int_of(node.args()[kGroups]) == 1;
}

bool is_depthwise_convolution(const ir::Program& program, const ir::Node& node) {
  if (!is_convolution(program, node)) {
    return false;
  }
  const ir::Value& weight = *node.args()[kWeight].value();
  const int64_t kernel = size_of(weight, 2), channels = size_of(weight, 0);
  const auto padding = ints_of(node.args()[kPadding]);
  return (kernel == 3 || kernel == 5) && size_of(weight, 3) == kernel && size_of(weight, 1) == 1 &&
         size_of(*node.args()[kInput].value(), 1) == channels && int_of(node.args()[kGroups]) == channels &&
         has_items(node.args()[kStride], 1, 2) && padding &&
         std::all_of(padding->begin(), padding->end(), [&](int64_t item) { return item >= 0 && item < kernel; });
}

/// The node behind `user`'s input when `user` is all that reads it, in the same graph and with the same tag.
ir::Node* only_source(const ir::Node& user) {
  const ir::Value* const input = user.args()[kInput].value();
  ir::Node* const source = input->producer();
  return source != nullptr && source->graph() == user.graph() && source->tag == user.tag && is_only_use(input, &user)
             ? source
             : nullptr;
}

/// Appends a convolution's limits: none for aten::convolution.
void append_range(const ir::Node& node, std::vector<ir::Argument>* args) {
  const bool clamps = node.args().size() > kMin;
  args->push_back(clamps ? node.args()[kMin] : ir::Argument());
  args->push_back(clamps ? node.args()[kMax] : ir::Argument());
}

bool fuse(const ir::Program& program, ir::Node* project) {
  if (!is_pixel_convolution(program, *project)) {
    return false;
  }
  ir::Node* const depthwise = only_source(*project);
  if (depthwise == nullptr || !is_depthwise_convolution(program, *depthwise)) {
    return false;
  }
  ir::Node* expand = only_source(*depthwise);
  if (expand != nullptr && !is_pixel_convolution(program, *expand)) {
    expand = nullptr;
  }
  const int64_t nbytes = std::max(depthwise->result()->type.tensor.max_nbytes(),
                                  expand == nullptr ? 0 : expand->result()->type.tensor.max_nbytes());
  if (nbytes < kLeastNbytes) {
    return false;
  }
  std::vector<ir::Argument> args = {(expand == nullptr ? depthwise : expand)->args()[kInput]};
  if (expand != nullptr) {
    args.insert(args.end(), {expand->args()[kWeight], expand->args()[kBias]});
    append_range(*expand, &args);
  } else {
    args.resize(args.size() + 4);
  }
  args.insert(args.end(), {depthwise->args()[kWeight], depthwise->args()[kBias], depthwise->args()[kStride],
                           depthwise->args()[kPadding]});
  append_range(*depthwise, &args);
  args.insert(args.end(), {project->args()[kWeight], project->args()[kBias]});
  append_range(*project, &args);

  ir::Node* const node = create_like(*project, op::et_separable_convolution, std::move(args));
  node->add_result(project->result()->name, project->result()->type);
  if (expand != nullptr) {
    node->absorb(*expand);
  }
  node->absorb(*depthwise);
  replace_node(project, node);
  node->graph()->erase(depthwise);
  if (expand != nullptr) {
    node->graph()->erase(expand);
  }
  return true;
}

}  // namespace

PassInfo FuseSeparableConvolution::info() const {
  return PassInfo::extension("fuse-separable-convolution",
                             "Keeps the images between depthwise convolutions and those of 1x1 in the cache");
}

Result<Changed> FuseSeparableConvolution::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) { return fuse(context.program, node); });
}

}  // namespace et::passes
