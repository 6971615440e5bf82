#include "backends/xnnpack/compiler/emitters.h"
#include "backends/xnnpack/compiler/quantization.h"
#include "ir/op_views.h"
#include "ops/arguments.h"
#include "ops/names.h"

namespace et::backends::xnnpack {
namespace {

using passes::int_of;
using passes::ints_of;
using payload::NodeUnion;

const ir::Argument kNone;

std::vector<uint32_t> literal_dims(const ir::Value* value) {
  return Lowering::dims_of(value->type.tensor, Form::kRowMajor);
}

Error write_fully_connected(Lowering& lowering, const ir::Node& node, const ir::Argument& input,
                            const ir::Argument& weight, const ir::Argument& bias, bool in_first) {
  ProductValues values;
  const std::vector<size_t> perm = in_first ? std::vector<size_t>{1, 0} : std::vector<size_t>{0, 1};
  ET_RETURN_IF_ERROR(product_values(lowering, node, input, weight, bias, literal_dims(weight.value()), perm, 0,
                                    Form::kRowMajor, values));
  lowering.writer.add_node(
      NodeUnion::NodeUnion_FullyConnected,
      payload::CreateFullyConnected(lowering.writer.builder, values.input, values.filter, values.bias, values.output),
      node.debug_handle, values.clamp ? &*values.clamp : nullptr);
  return Error::Ok;
}

}  // namespace

Error emit_linear(Lowering& lowering, const ir::Node& node) {
  const ops::Linear call(node);
  return write_fully_connected(lowering, node, call.input(), call.weight(), call.bias(), false);
}

Error emit_addmm(Lowering& lowering, const ir::Node& node) {
  const ops::Addmm call(node);
  return write_fully_connected(lowering, node, call.mat1(), call.mat2(), call.self(), true);
}

Error emit_matmul(Lowering& lowering, const ir::Node& node) {
  const ops::Mm call(node);
  const ir::Value* second = call.mat2().value();
  if (node.op == op::mm && passes::constant_of(lowering.program(), second) != nullptr) {
    return write_fully_connected(lowering, node, call.self(), call.mat2(), kNone, true);
  }
  const uint32_t a = lowering.id_of(call.self().value(), Form::kRowMajor);
  const uint32_t swapped = lowering.swapped(second);
  const bool is_swapped = swapped != kInvalidId;
  const uint32_t b = is_swapped ? swapped : lowering.id_of(second, Form::kRowMajor);
  lowering.writer.add_binary(NodeUnion::NodeUnion_BatchMatrixMultiply, a, b,
                             lowering.define(node.result(), Form::kRowMajor), node.debug_handle, nullptr,
                             is_swapped ? kTransposedFactor : 0);
  return Error::Ok;
}

Error emit_convolution(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_convolution_clamp;
  const auto& args = node.args();
  const bool transposed = int_of(args[kTransposed]).value_or(0) != 0;
  const auto groups = static_cast<uint32_t>(int_of(args[kGroups]).value_or(1));
  // One spatial dimension is an image of height 1.
  const auto pair = [&](const ir::Argument& argument, uint32_t height) {
    std::vector<uint32_t> out;
    const auto numbers = ints_of(argument);
    for (const int64_t number : *numbers) {
      out.push_back(static_cast<uint32_t>(number));
    }
    if (out.size() == 1) {
      out.insert(out.begin(), height);
    }
    return out;
  };
  const auto stride = pair(args[kStride], 1), padding = pair(args[kPadding], 0), dilation = pair(args[kDilation], 1),
             extra = pair(args[kOutputPadding], 0);
  std::vector<uint32_t> dims =
      literal_dims(args[kWeight].value());  // [out, in / groups, kh, kw], transposed [in, out / groups, …]
  if (dims.size() == 3) {
    dims.insert(dims.begin() + 2, 1);
  }
  const auto in_channels = static_cast<uint32_t>(args[kInput].value()->type.tensor.dims[1].max);
  const auto out_channels = static_cast<uint32_t>(node.result()->type.tensor.dims[1].max);
  const uint32_t group_in = in_channels / groups, group_out = out_channels / groups;
  const uint32_t height = dims[2], width = dims[3];
  const bool depthwise = !transposed && group_in == 1 && groups > 1;

  std::vector<size_t> perm{0, 2, 3, 1};
  std::vector<uint32_t> seen = dims;
  size_t channel_dim = 0;
  if (depthwise) {
    perm = {1, 2, 3, 0};  // [1, kh, kw, out]
    channel_dim = 3;
  } else if (transposed && groups == 1) {
    perm = {1, 2, 3, 0};  // [in, out, kh, kw] -> [out, kh, kw, in]
  } else if (transposed) {
    seen = {groups, group_in, group_out, height, width};
    perm = {0, 2, 3, 4, 1};
  }
  ProductValues values;
  ET_RETURN_IF_ERROR(product_values(lowering, node, args[kInput], args[kWeight], args[kBias], seen, perm, channel_dim,
                                    Form::kImage, values));
  const NodeUnion type = depthwise    ? NodeUnion::NodeUnion_DepthwiseConv2d
                         : transposed ? NodeUnion::NodeUnion_ConvTranspose2d
                                      : NodeUnion::NodeUnion_Conv2d;
  lowering.writer.add_node(
      type,
      payload::CreateConvolution(lowering.writer.builder, padding[0], padding[1], padding[0], padding[1], height, width,
                                 stride[0], stride[1], dilation[0], dilation[1], group_in, group_out, groups,
                                 transposed ? extra[0] : 0, transposed ? extra[1] : 0, values.input, values.filter,
                                 values.bias, values.output),
      node.debug_handle, values.clamp ? &*values.clamp : nullptr);
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
