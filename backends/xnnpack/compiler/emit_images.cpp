#include <algorithm>

#include "backends/xnnpack/compiler/emitters.h"
#include "backends/xnnpack/compiler/quantization.h"
#include "ir/op_views.h"

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

/// The payload's pooling of `input`. With ceil_mode the last windows may reach over the edge: there is more padding at
/// that end.
Error emit_pooling(Lowering& lowering, const ir::Node& node, NodeUnion type, Pair padding, Pair dilation,
                   bool ceil_mode, uint32_t input, const Movement& movement) {
  const ops::MaxPool2d call(node);
  const Pair window = pair_of(call.kernel_size());
  const Pair stride = pair_of(call.stride(), window);
  const auto& in = movement.from->type.tensor.dims;
  const auto& out = movement.to->type.tensor.dims;
  const Pair counted = pair_of(call.padding(), {0, 0});
  uint32_t bottom = padding.height, right = padding.width;
  if (ceil_mode) {
    bottom +=
        static_cast<uint32_t>(overhang(in[2], out[2], counted.height, window.height, dilation.height, stride.height));
    right += static_cast<uint32_t>(overhang(in[3], out[3], counted.width, window.width, dilation.width, stride.width));
  }
  const uint32_t output = lowering.define(movement.to, Form::kImage);
  const bool is_max = type == NodeUnion::NodeUnion_MaxPooling2d;
  lowering.writer.add_node(
      type,
      payload::CreatePooling(lowering.writer.builder, padding.height, right, bottom, padding.width, window.height,
                             window.width, stride.height, stride.width, is_max ? dilation.height : 0,
                             is_max ? dilation.width : 0, input, output),
      node.debug_handle);
  return Error::Ok;
}

}  // namespace

int64_t overhang(const ir::Dim& in, const ir::Dim& out, int64_t padding, int64_t window, int64_t dilation,
                 int64_t stride) {
  return std::max<int64_t>(0, (out.max - 1) * stride + (window - 1) * dilation + 1 - in.max - 2 * padding);
}

Error emit_max_pool(Lowering& lowering, const ir::Node& node) {
  const ops::MaxPool2d call(node);
  const Movement movement = movement_of(lowering, node);
  return emit_pooling(lowering, node, NodeUnion::NodeUnion_MaxPooling2d, pair_of(call.padding(), {0, 0}),
                      pair_of(call.dilation()), int_of(call.ceil_mode()).value_or(0) != 0,
                      lowering.id_of(movement.from, Form::kImage), movement);
}

Error emit_avg_pool(Lowering& lowering, const ir::Node& node) {
  const ops::AvgPool2d call(node);
  const Movement movement{call.self().value(), node.result()};
  uint32_t input = lowering.id_of(movement.from, Form::kImage);
  Pair padding = pair_of(call.padding(), {0, 0});
  if (int_of(call.count_include_pad()).value_or(1) != 0 && (padding.height != 0 || padding.width != 0)) {
    // Padding that counts: zeros of the image, since the library leaves its own out of the mean.
    ValueSpec spec = lowering.spec_of(movement.from, Form::kImage);
    const std::vector<uint32_t> border = {0, padding.height, padding.width, 0};
    spec.dims[1] += 2 * padding.height;
    spec.dims[2] += 2 * padding.width;
    const uint32_t padded = lowering.define_hidden(spec);
    lowering.writer.add_node(NodeUnion::NodeUnion_StaticConstantPad,
                             payload::CreatePadDirect(lowering.writer.builder, &border, &border, 0.0f, input, padded),
                             node.debug_handle);
    input = padded;
    padding = {0, 0};
  }
  return emit_pooling(lowering, node, NodeUnion::NodeUnion_AvgPooling2d, padding, {1, 1},
                      int_of(call.ceil_mode()).value_or(0) != 0, input, movement);
}

Error emit_mean(Lowering& lowering, const ir::Node& node) {
  const Movement movement = movement_of(lowering, node, true);
  const uint32_t input = lowering.id_of(movement.from, Form::kImage);
  const bool keeps_dims = int_of(ops::MeanDim(node).keepdim()).value_or(0) != 0;
  // The image form of [N, C, 1, 1] and of [N, C, 1] is [N, 1, 1, C]; without the dims of size 1 both are [N, C].
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
  lowering.writer.add_node(
      NodeUnion::NodeUnion_StaticResizeBilinear2D,
      payload::CreateResize(
          lowering.writer.builder, dims[1], dims[2], input, output,
          int_of(ops::UpsampleBilinear2dVec(node).align_corners()).value_or(0) != 0 ? kAlignCorners : 0),
      node.debug_handle);
  return Error::Ok;
}

// Channels are innermost: each pixel is written several times next to itself, then each line of pixels.
Error emit_nearest(Lowering& lowering, const ir::Node& node) {
  const Movement movement = movement_of(lowering, node);
  const auto& in = movement.from->type.tensor.dims;
  const auto& out = movement.to->type.tensor.dims;
  const auto height = static_cast<uint32_t>(in[2].max), width = static_cast<uint32_t>(in[3].max);
  const auto channels = static_cast<uint32_t>(in[1].max), batch = static_cast<uint32_t>(in[0].max);
  const uint32_t times_high = static_cast<uint32_t>(out[2].max) / height;
  const uint32_t times_wide = static_cast<uint32_t>(out[3].max) / width;
  const auto hidden = [&](std::vector<uint32_t> dims) {
    ValueSpec spec = lowering.spec_of(movement.from, Form::kImage);
    spec.dims = std::move(dims);
    return lowering.writer.add_value(spec);
  };
  // [rows, 1, size] -> [rows, times, size]; the number of rows is left open, the batch may be dynamic.
  const auto repeat = [&](uint32_t from, uint32_t rows, uint32_t times, uint32_t size) {
    if (times == 1) {
      return from;
    }
    const uint32_t apart = hidden({rows, 1, size});
    lowering.reshape(from, apart, {0, 1, size}, node.debug_handle);
    const uint32_t together = hidden({rows, times, size});
    join(lowering, node, 1, std::vector<uint32_t>(times, apart), together);
    return together;
  };
  uint32_t pixels = lowering.id_of(movement.from, Form::kImage);
  pixels = repeat(pixels, batch * height * width, times_wide, channels);
  pixels = repeat(pixels, batch * height, times_high, times_wide * width * channels);
  lowering.reshape(pixels, lowering.define(movement.to, Form::kImage),
                   {0, times_high * height, times_wide * width, channels}, node.debug_handle);
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
