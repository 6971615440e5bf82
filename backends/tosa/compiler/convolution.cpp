#include "backends/tosa/compiler/convolution.h"

#include "ir/literals.h"

namespace et::backends::tosa::compiler {
namespace {

int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

/// Windows that move by a block each: as many blocks as a window of elements touches.
Window in_blocks(const Window& w) {
  const int64_t kernel = (w.kernel + w.stride - 1) / w.stride;
  return make_window(w.out + kernel - 1, kernel, 1, 1, 0, w.out);
}

}  // namespace

Convolution::Convolution(const ir::Node& node, const ConvolutionArguments& at) {
  const auto& args = node.args();
  const ir::TensorType& in = args[at.input].value()->type.tensor;
  const ir::TensorType& weight = args[at.weight].value()->type.tensor;
  const ir::TensorType& result = node.result()->type.tensor;
  const size_t dims = in.rank() - 2;
  groups = *ir::int_of(args[at.groups]);
  in_channels = in.dims[1].max;
  out_channels = result.dims[1].max;
  transposed = *ir::int_of(args[at.transposed]) != 0;
  out = Lowering::shape_of(result, Form::kImage);
  const auto stride = spatial(args[at.stride], dims, {1}), padding = spatial(args[at.padding], dims, {0}),
             dilation = spatial(args[at.dilation], dims, {1});
  const auto window = [&](size_t d) {
    return make_window(in.dims[2 + d].max, weight.dims[2 + d].max, (*stride)[d], (*dilation)[d], (*padding)[d],
                       result.dims[2 + d].max);
  };
  columns = window(dims - 1);
  rows = dims == 2 ? window(0) : make_window(1, 1, 1, 1, 0, 1);
  if (transposed) {  // its windows stand on the result
    columns.stride = (*stride)[dims - 1];
    rows.stride = dims == 2 ? (*stride)[0] : 1;
  }
}

Convolution Convolution::of_rows(int32_t rows, int32_t out_channels) {
  Convolution c;
  c.out_channels = out_channels;
  c.out = {1, rows, 1, out_channels};
  return c;
}

Convolution Convolution::in_blocks() const {
  Convolution c = *this;
  c.rows = compiler::in_blocks(rows);
  c.columns = compiler::in_blocks(columns);
  c.in_channels *= rows.stride * columns.stride;
  return c;
}

TensorId Convolution::blocks_of(Lowering& lowering, TensorId image, int64_t zero_point) const {
  const Convolution blocks = in_blocks();
  const int32_t height = narrow(rows.stride), width = narrow(columns.stride);
  const int32_t down = narrow(blocks.rows.size), across = narrow(blocks.columns.size);
  const Shape from = lowering.writer.shape_of(image);
  const TensorId filled = lowering.pad(image,
                                       {0, 0, rows.before, down * height - from[1] - rows.before, columns.before,
                                        across * width - from[2] - columns.before, 0, 0},
                                       lowering.scalar(lowering.writer.type_of(image), zero_point));
  const TensorId split = lowering.reshape(filled, {from[0], down, height, across, width, from[3]});
  return lowering.reshape(lowering.transpose(split, {0, 1, 3, 2, 4, 5}),
                          {from[0], down, across, height * width * from[3]});
}

std::string Convolution::weights_in_blocks(const std::string& values) const {
  const Convolution blocks = in_blocks();
  std::string out;
  for (int64_t o = 0; o < out_channels; ++o) {
    for (int64_t channel = 0; channel < blocks.in_channels; ++channel) {
      const int64_t pixel = channel / in_channels, in = channel % in_channels;
      for (int64_t row = pixel / columns.stride; row < blocks.rows.kernel * rows.stride; row += rows.stride) {
        for (int64_t column = pixel % columns.stride; column < blocks.columns.kernel * columns.stride;
             column += columns.stride) {
          const bool is_within = row < rows.kernel && column < columns.kernel;
          const int64_t at = ((o * in_channels + in) * rows.kernel + row) * columns.kernel + column;
          out.push_back(is_within ? values[static_cast<size_t>(at)] : '\0');
        }
      }
    }
  }
  return out;
}

std::vector<Convolution::Group> Convolution::parts() const {
  if (is_depthwise()) {
    return {{0, static_cast<size_t>(out_channels)}};
  }
  const auto count = static_cast<size_t>(out_channels / groups);
  std::vector<Group> out_of;
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    out_of.push_back({group * count, count});
  }
  return out_of;
}

std::vector<int64_t> Convolution::weight_dims() const {
  const int64_t out_of = out_channels / groups, in_of = in_channels / groups, height = rows.kernel,
                width = columns.kernel;
  return transposed       ? std::vector<int64_t>{in_of, out_of, height, width}
         : is_depthwise() ? std::vector<int64_t>{in_channels, out_of, height, width}
                          : std::vector<int64_t>{out_of, in_of, height, width};
}

std::vector<size_t> Convolution::weight_order() const {
  return transposed       ? std::vector<size_t>{1, 2, 3, 0}
         : is_depthwise() ? std::vector<size_t>{2, 3, 0, 1}
                          : std::vector<size_t>{0, 2, 3, 1};
}

Shape Convolution::weight_shape() const {
  const std::vector<int64_t> dims = weight_dims();
  Shape shape;
  for (const size_t d : weight_order()) {
    shape.push_back(narrow(dims[d]));
  }
  return shape;
}

TensorId Convolution::part_of(Lowering& lowering, TensorId image, const Group& group) const {
  if (is_depthwise()) {
    return image;
  }
  Shape size = lowering.writer.shape_of(image);
  size[3] = narrow(in_channels / groups);
  return lowering.slice(image, {0, 0, 0, static_cast<int64_t>(group.first / group.count) * size[3]}, size);
}

TensorId Convolution::convolve(Lowering& lowering, TensorId image, TensorId weight, TensorId bias,
                               int64_t zero_point) const {
  PayloadWriter& writer = lowering.writer;
  const payload::DType sum = lowering.accumulator(image);
  const std::vector<TensorId> inputs = {image, weight, bias, lowering.scalar(writer.type_of(image), zero_point),
                                        lowering.scalar(writer.type_of(weight), 0)};
  const Shape from = writer.shape_of(image);
  const std::vector<int32_t> stride = {narrow(rows.stride), narrow(columns.stride)};
  Shape shape = out;
  shape[3] = narrow(is_depthwise() ? out_channels : out_channels / groups);
  if (transposed) {
    const TensorId result = writer.add_tensor(lowering.sum_type(image), shape);
    // (size - 1) * stride + kernel + pads = out
    const int32_t bottom = out[1] - narrow((from[1] - 1) * rows.stride + rows.kernel - rows.before);
    const int32_t right = out[2] - narrow((from[2] - 1) * columns.stride + columns.kernel - columns.before);
    const std::vector<int32_t> pad = {-narrow(rows.before), bottom, -narrow(columns.before), right};
    const auto attribute = payload::CreateTransposeConv2dAttributeDirect(writer.builder, &pad, &stride, false, sum);
    writer.add(payload::Op_TRANSPOSE_CONV2D, attribute.Union(), inputs, result);
    return result;
  }
  const std::vector<int32_t> pad = {narrow(rows.before), narrow(rows.after), narrow(columns.before),
                                    narrow(columns.after)};
  const std::vector<int32_t> dilation = {narrow(rows.dilation), narrow(columns.dilation)};
  const TensorId result = writer.add_tensor(lowering.sum_type(image), shape);
  if (is_depthwise()) {
    const auto attribute =
        payload::CreateDepthwiseConv2dAttributeDirect(writer.builder, &pad, &stride, &dilation, false, sum);
    writer.add(payload::Op_DEPTHWISE_CONV2D, attribute.Union(), inputs, result);
  } else {
    const auto attribute = payload::CreateConv2dAttributeDirect(writer.builder, &pad, &stride, &dilation, false, sum);
    writer.add(payload::Op_CONV2D, attribute.Union(), inputs, result);
  }
  return result;
}

}  // namespace et::backends::tosa::compiler
