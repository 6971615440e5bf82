#include "backends/xnnpack/compiler/emitters.h"
#include "backends/xnnpack/compiler/quantization.h"

namespace et::backends::xnnpack {
namespace {

using passes::int_of;
using payload::NodeUnion;

struct Pair {
  uint32_t height = 1, width = 1;
};

/// One or two numbers; `otherwise` for an empty list.
Pair pair_of(const ir::Argument& argument, Pair otherwise = {}) {
  const auto list = passes::ints_of(argument);
  return !list || list->empty() ? otherwise
                                : Pair{static_cast<uint32_t>(list->front()), static_cast<uint32_t>(list->back())};
}

Error emit_pooling(Lowering& lowering, const ir::Node& node, NodeUnion type, Pair dilation, Movement movement) {
  const Pair window = pair_of(node.args()[1]);
  const Pair stride = pair_of(node.args()[2], window);
  const Pair padding = pair_of(node.args()[3], {0, 0});
  const uint32_t input = lowering.id_of(movement.from, Form::kImage);
  const uint32_t output = lowering.define(movement.to, Form::kImage);
  lowering.writer.add_node(
      type,
      payload::CreatePooling(lowering.writer.builder, padding.height, padding.width, padding.height, padding.width,
                             window.height, window.width, stride.height, stride.width, dilation.height, dilation.width,
                             input, output),
      node.debug_handle);
  return Error::Ok;
}

}  // namespace

Error emit_max_pool(Lowering& lowering, const ir::Node& node) {
  return emit_pooling(lowering, node, NodeUnion::NodeUnion_MaxPooling2d, pair_of(node.args()[4]),
                      movement_of(lowering, node));
}

Error emit_avg_pool(Lowering& lowering, const ir::Node& node) {
  return emit_pooling(lowering, node, NodeUnion::NodeUnion_AvgPooling2d, {0, 0},
                      {node.args()[0].value(), node.result()});
}

Error emit_mean(Lowering& lowering, const ir::Node& node) {
  const Movement movement = movement_of(lowering, node, true);
  const uint32_t input = lowering.id_of(movement.from, Form::kImage);
  const bool keeps_dims = int_of(node.args()[2]).value_or(0) != 0;
  // The image form of [N, C, 1, 1] is [N, 1, 1, C]; without the dims of size 1 both are [N, C].
  const uint32_t output = lowering.define(movement.to, keeps_dims ? Form::kImage : Form::kRowMajor);
  constexpr uint32_t kKeepDims = 0x40;
  lowering.writer.add_unary(NodeUnion::NodeUnion_GlobalAvgPooling2d, input, output, node.debug_handle, nullptr,
                            keeps_dims ? kKeepDims : 0);
  return Error::Ok;
}

Error emit_resize(Lowering& lowering, const ir::Node& node) {
  const Movement movement = movement_of(lowering, node);
  const uint32_t input = lowering.id_of(movement.from, Form::kImage);
  const uint32_t output = lowering.define(movement.to, Form::kImage);
  const auto dims = Lowering::dims_of(node.result()->type.tensor, Form::kImage);
  constexpr uint32_t kAlignCorners = 0x8;
  lowering.writer.add_node(NodeUnion::NodeUnion_StaticResizeBilinear2D,
                           payload::CreateResize(lowering.writer.builder, dims[1], dims[2], input, output,
                                                 int_of(node.args()[2]).value_or(0) != 0 ? kAlignCorners : 0),
                           node.debug_handle);
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
