#include "passes/fuse_separable_convolution.h"

#include <algorithm>

#include "ir/pattern.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// The names are those of the operator's arguments.
const ir::Pattern kSeparable = R"(
  projected = convolution(image, project_weight, project_bias, ONES, ZEROS, ONES, 0, _, 1)
            | et::convolution_clamp(image, project_weight, project_bias, ONES, ZEROS, ONES, 0, _, 1,
                                    project_min, project_max)
  image = convolution(expanded, weight, bias, stride, padding, ONES, 0, _, groups)
        | et::convolution_clamp(expanded, weight, bias, stride, padding, ONES, 0, _, groups, min, max)
  expanded = convolution(input, expand_weight, expand_bias, ONES, ZEROS, ONES, 0, _, 1)
           | et::convolution_clamp(input, expand_weight, expand_bias, ONES, ZEROS, ONES, 0, _, 1,
                                   expand_min, expand_max)
           | input
  ONES = 1 | [1, 1]
  ZEROS = 0 | [0, 0]
)";

/// Bytes of an image that is worth keeping in the cache.
constexpr int64_t kLeastNbytes = 1 << 20;

bool is_image(const ir::Value* value) {
  if (value == nullptr || !value->type.is_tensor()) {
    return false;
  }
  const ir::TensorType& type = value->type.tensor;
  const std::vector<uint8_t> channels_last = {0, 2, 3, 1};
  return type.dtype == ScalarType::Float && type.rank() == 4 && type.dim_order == channels_last && type.is_static();
}

int64_t size_of(const ir::Value* value, size_t dim) { return value->type.tensor.dims[dim].min; }

/// A constant filter with as many rows as columns, and a bias that is a constant or not there.
bool is_filter(const ir::Program& program, const ir::Argument& weight, const ir::Argument& bias) {
  const ir::Constant* const constant = constant_of(program, weight);
  return constant != nullptr && constant->type.dtype == ScalarType::Float && constant->type.rank() == 4 &&
         size_of(weight.value(), 2) == size_of(weight.value(), 3) &&
         (bias.is_none() || constant_of(program, bias) != nullptr);
}

bool is_pixel_filter(const ir::Program& program, const ir::Argument& weight, const ir::Argument& bias) {
  return is_filter(program, weight, bias) && size_of(weight.value(), 2) == 1;
}

/// One filter a channel; 3x3 or 5x5 pixels, at each place or at each second one.
bool is_depthwise(const ir::Program& program, const ir::Match& m) {
  if (!is_filter(program, m["weight"], m["bias"])) {
    return false;
  }
  const int64_t kernel = size_of(m.value("weight"), 2), channels = size_of(m.value("weight"), 0);
  const auto stride = ints_of(m["stride"]), padding = ints_of(m["padding"]);
  return (kernel == 3 || kernel == 5) && size_of(m.value("weight"), 1) == 1 &&
         size_of(m.value("expanded"), 1) == channels && int_of(m["groups"]) == channels && stride && !stride->empty() &&
         (stride->front() == 1 || stride->front() == 2) && stride->front() == stride->back() && padding &&
         std::all_of(padding->begin(), padding->end(), [&](int64_t item) { return item >= 0 && item < kernel; });
}

bool is_worth_it(const ir::Program& program, const ir::Match& m) {
  const bool expands = !(m["input"] == m["expanded"]);
  const auto nbytes = [&](std::string_view image) { return m.value(image)->type.tensor.max_nbytes(); };
  return is_image(m.value("projected")) && is_image(m.value("image")) && is_image(m.value("expanded")) &&
         is_pixel_filter(program, m["project_weight"], m["project_bias"]) && is_depthwise(program, m) &&
         (!expands || (is_image(m.value("input")) && is_pixel_filter(program, m["expand_weight"], m["expand_bias"]))) &&
         std::max(nbytes("image"), expands ? nbytes("expanded") : 0) >= kLeastNbytes &&
         std::all_of(m.nodes.begin(), m.nodes.end(), [&](const ir::Node* node) { return node->tag == m.root()->tag; });
}

void fuse(const ir::Match& m) {
  std::vector<ir::Argument> args;
  for (const ops::Argument& argument : ops::find_op(op::et_separable_convolution)->arguments) {
    args.push_back(m[argument.name]);
  }
  ir::Node* const fused = create_like(*m.root(), op::et_separable_convolution, std::move(args));
  fused->add_result(m.root()->result()->name, m.root()->result()->type);
  std::for_each(m.nodes.rbegin(), m.nodes.rend(), [&](const ir::Node* node) { fused->absorb(*node); });
  replace_node(m.root(), fused);
  erase_unread({m.nodes.begin() + 1, m.nodes.end()}, fused);
}

}  // namespace

PassInfo FuseSeparableConvolution::info() const {
  return PassInfo::extension("fuse-separable-convolution",
                             "Keeps the images between depthwise convolutions and those of 1x1 in the cache");
}

Result<Changed> FuseSeparableConvolution::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) {
    const auto found =
        kSeparable.match(*node, context.program, [&](const ir::Match& m) { return is_worth_it(context.program, m); });
    if (found) {
      fuse(*found);
    }
    return found.has_value();
  });
}

}  // namespace et::passes
