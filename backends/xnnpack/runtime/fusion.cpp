#include "backends/xnnpack/runtime/fusion.h"

#include <algorithm>

#include "backends/xnnpack/runtime/node_types.h"

namespace et::backends::xnnpack {
namespace {

constexpr size_t kNoNode = SIZE_MAX;

bool has_clamp(const Node& node) {
  switch (node.type->form) {
    case NodeForm::kFullyConnected:
    case NodeForm::kConvolution:
    case NodeForm::kDepthwise:
    case NodeForm::kDeconvolution:
    case NodeForm::kMaxPool:
    case NodeForm::kAvgPool: return true;
    case NodeForm::kUnary: return node.type->type == payload::NodeUnion_Clamp;
    case NodeForm::kBinary:
      return node.type->type == payload::NodeUnion_Add || node.type->type == payload::NodeUnion_Subtract ||
             node.type->type == payload::NodeUnion_Multiply || node.type->type == payload::NodeUnion_Div;
    default: return false;
  }
}

/// The clamp of `made`, then that of `clamp`.
Error merge_bounds(const Model& model, Node& made, const Node& clamp) {
  const Quantization& from = model.values[clamp.inputs[0]].quantization;
  const Quantization& to = model.values[clamp.outputs[0]].quantization;
  ET_CHECK_OR_RETURN(
      made.type->form != NodeForm::kMaxPool || (from.scale == to.scale && from.zero_point == to.zero_point),
      InvalidProgram, "xnnpack payload: a Clamp behind a %s node converts between scales", made.type->name);
  made.output_min = std::min(std::max(made.output_min, clamp.output_min), clamp.output_max);
  made.output_max = std::min(std::max(made.output_max, clamp.output_min), clamp.output_max);
  return Error::Ok;
}

}  // namespace

Error fuse_nodes(Model& model) {
  List<uint32_t> readers(model.values.size(), 0);
  for (const Node& node : model.nodes) {
    for (uint32_t i = 0; i < node.num_inputs; ++i) {
      ++readers[node.inputs[i]];
    }
  }
  List<size_t> maker(model.values.size(), kNoNode);  // positions in `kept`
  List<Node> kept;
  for (const Node& node : model.nodes) {
    const uint32_t input = node.inputs[0], output = node.outputs[0];
    const size_t before = maker[input];
    const bool is_copy = node.type->form == NodeForm::kCopy;
    const bool is_clamp = node.type->type == payload::NodeUnion_Clamp;
    const bool alone = before != kNoNode && readers[input] == 1 && !model.values[input].is_output;
    if (alone && (is_copy || (is_clamp && has_clamp(kept[before])))) {
      Node& made = kept[before];
      made.result_handle = node.debug_handle;
      if (is_clamp) {
        ET_RETURN_IF_ERROR(merge_bounds(model, made, node));
      }
      std::replace(made.outputs, made.outputs + made.num_outputs, input, output);
      model.values[input].declared = model.values[output].declared;  // nothing makes or reads it any more
      maker[output] = before;
      continue;
    }
    for (uint32_t i = 0; i < node.num_outputs; ++i) {
      maker[node.outputs[i]] = kept.size();
    }
    kept.push_back(node);
  }
  model.nodes = std::move(kept);
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
