#include <algorithm>
#include <numeric>

#include "backends/tosa/compiler/emitters.h"
#include "backends/tosa/compiler/windows.h"
#include "ops/arguments.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::int_of;
using passes::ints_of;
using passes::number_of;

/// How an average's integers become the result's, in the kernels' order of operations.
struct Average {
  float factor = 1;
  int64_t zero_point = 0;
  int64_t count = 1;
  Output output;
};

/// Arguments 1 and 2 are the input's scale and zero point, from `output_scale` on come the result's.
Average average_of(const ir::Node& node, size_t output_scale, int64_t count) {
  const auto& args = node.args();
  const auto in = static_cast<float>(*number_of(args[1])), to = static_cast<float>(*number_of(args[output_scale]));
  const Output output{*int_of(args[output_scale + 1]), *int_of(args[output_scale + 2]),
                      *int_of(args[output_scale + 3])};
  return {in / to * (1.0f / static_cast<float>(count)), *int_of(args[2]), count, output};
}

/// Averages of windows are convolutions of each channel with ones: the sums are exact, and rounded once. AVG_POOL2D
/// would round to the scale of the input first.
Error emit_windows(Lowering& lowering, const ir::Node& node, const Window& rows, const Window& columns,
                   const Average& average) {
  PayloadWriter& writer = lowering.writer;
  TensorId image = lowering.get(node.args()[0].value(), Form::kImage);
  Shape shape = writer.shape_of(image);
  shape[1] -= static_cast<int32_t>(rows.crop);
  shape[2] -= static_cast<int32_t>(columns.crop);
  image = lowering.slice(image, {0, 0, 0, 0}, shape);
  const auto number = [](int64_t value) { return static_cast<int32_t>(value); };
  const int32_t channels = shape[3], height = number(rows.kernel), width = number(columns.kernel);
  const std::vector<int8_t> ones(static_cast<size_t>(rows.kernel * columns.kernel * channels), 1);
  const std::vector<int32_t> zeros(static_cast<size_t>(channels), 0);
  const std::vector<int32_t> pad = {number(rows.before), number(rows.after), number(columns.before),
                                    number(columns.after)};
  const std::vector<int32_t> stride = {number(rows.stride), number(columns.stride)}, dilation = {1, 1};
  const std::vector<TensorId> inputs = {
      image, writer.add_numbers(payload::DType_INT8, {height, width, channels, 1}, ones),
      writer.add_numbers(payload::DType_INT32, {channels}, zeros),
      lowering.scalar(payload::DType_INT8, average.zero_point), lowering.scalar(payload::DType_INT8, 0)};
  TensorId out = writer.add_tensor(payload::DType_INT32, {shape[0], number(rows.out), number(columns.out), channels});
  const auto attribute = payload::CreateDepthwiseConv2dAttributeDirect(writer.builder, &pad, &stride, &dilation, false,
                                                                       payload::DType_INT32);
  writer.add(payload::Op_DEPTHWISE_CONV2D, attribute.Union(), inputs, out);
  ET_RETURN_IF_ERROR(
      lowering.to_integers(node, out, {average.factor}, {rows.kernel * columns.kernel * 255}, average.output, &out));
  const ir::TensorType& type = node.result()->type.tensor;
  if (type.rank() == 4) {
    lowering.set(node.result(), Form::kImage, out);
  } else {
    lowering.set(node.result(), Form::kRowMajor, lowering.reshape(out, Lowering::shape_of(type, Form::kRowMajor)));
  }
  return Error::Ok;
}

/// Largest window that is convolved with ones; sums over larger ones are those of their rows and columns.
constexpr int64_t kMaxHeight = 64, kMaxArea = 4096;

Error emit_sums(Lowering& lowering, const ir::Node& node, const std::vector<size_t>& dims, const Average& average) {
  PayloadWriter& writer = lowering.writer;
  TensorId sums = lowering.widen(lowering.get(node.args()[0].value(), Form::kRowMajor), average.zero_point);
  for (const size_t dim : dims) {
    Shape shape = writer.shape_of(sums);
    shape[dim] = 1;
    const TensorId out = writer.add_tensor(payload::DType_INT32, shape);
    const auto attribute = payload::CreateReduceSumAttribute(writer.builder, static_cast<int32_t>(dim));
    writer.add(payload::Op_REDUCE_SUM, attribute.Union(), {sums}, out);
    sums = out;
  }
  ET_RETURN_IF_ERROR(lowering.to_integers(node, sums, {average.factor}, {average.count * 255}, average.output, &sums));
  const Shape shape = Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor);
  lowering.set(node.result(), Form::kRowMajor, lowering.reshape(sums, shape));
  return Error::Ok;
}

}  // namespace

Error emit_max_pool(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::max_pool2d_with_indices;
  const auto& args = node.args();
  const ir::TensorType& in = args[kSelf].value()->type.tensor;
  const ir::TensorType& result = node.result()->type.tensor;
  const auto kernel = *spatial(args[kKernelSize], 2, {}), stride = *spatial(args[kStride], 2, kernel),
             padding = *spatial(args[kPadding], 2, {0});
  const Window rows = make_window(in.dims[2].max, kernel[0], stride[0], 1, padding[0], result.dims[2].max);
  const Window columns = make_window(in.dims[3].max, kernel[1], stride[1], 1, padding[1], result.dims[3].max);
  PayloadWriter& writer = lowering.writer;
  TensorId image = lowering.get(args[kSelf].value(), Form::kImage);
  Shape shape = writer.shape_of(image);
  shape[1] -= static_cast<int32_t>(rows.crop);
  shape[2] -= static_cast<int32_t>(columns.crop);
  image = lowering.slice(image, {0, 0, 0, 0}, shape);
  const auto number = [](int64_t value) { return static_cast<int32_t>(value); };
  const std::vector<int32_t> window = {number(kernel[0]), number(kernel[1])};
  const std::vector<int32_t> step = {number(rows.stride), number(columns.stride)};
  const std::vector<int32_t> pad = {number(rows.before), number(rows.after), number(columns.before),
                                    number(columns.after)};
  const TensorId out = writer.add_tensor(writer.type_of(image), Lowering::shape_of(result, Form::kImage));
  const auto attribute = payload::CreateMaxPool2dAttributeDirect(writer.builder, &window, &step, &pad,
                                                                 payload::NanPropagationMode_PROPAGATE);
  writer.add(payload::Op_MAX_POOL2D, attribute.Union(), {image}, out);
  lowering.set(node.result(), Form::kImage, out);
  return Error::Ok;
}

Error emit_avg_pool(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_avg_pool2d;
  const auto& args = node.args();
  const ir::TensorType& in = args[kSelf].value()->type.tensor;
  const ir::TensorType& result = node.result()->type.tensor;
  const auto kernel = *spatial(args[kKernelSize], 2, {}), stride = *spatial(args[kStride], 2, kernel),
             padding = *spatial(args[kPadding], 2, {0});
  const Window rows = make_window(in.dims[2].max, kernel[0], stride[0], 1, padding[0], result.dims[2].max);
  const Window columns = make_window(in.dims[3].max, kernel[1], stride[1], 1, padding[1], result.dims[3].max);
  const int64_t count = int_of(args[kDivisorOverride]).value_or(kernel[0] * kernel[1]);
  return emit_windows(lowering, node, rows, columns, average_of(node, kOutputScale, count));
}

Error emit_adaptive_pool(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_adaptive_avg_pool2d;
  const ir::TensorType& in = node.args()[kSelf].value()->type.tensor;
  const ir::TensorType& result = node.result()->type.tensor;
  const auto window = [&](size_t d) {
    const int64_t kernel = in.dims[d].max / result.dims[d].max;
    return make_window(in.dims[d].max, kernel, kernel, 1, 0, result.dims[d].max);
  };
  const Window rows = window(2), columns = window(3);
  const Average average = average_of(node, kOutputScale, rows.kernel * columns.kernel);
  const bool is_whole = rows.out == 1 && columns.out == 1;
  if (is_whole && (rows.kernel > kMaxHeight || rows.kernel * columns.kernel > kMaxArea)) {
    return emit_sums(lowering, node, {2, 3}, average);
  }
  return emit_windows(lowering, node, rows, columns, average);
}

Error emit_mean(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_mean;
  const ir::TensorType& in = node.args()[kSelf].value()->type.tensor;
  const auto rank = static_cast<int64_t>(in.rank());
  std::vector<size_t> dims;
  for (const int64_t dim : ints_of(node.args()[kDim]).value_or(std::vector<int64_t>())) {
    dims.push_back(static_cast<size_t>(dim < 0 ? dim + rank : dim));
  }
  if (dims.empty()) {
    dims.resize(in.rank());
    std::iota(dims.begin(), dims.end(), size_t{0});
  }
  std::sort(dims.begin(), dims.end());
  int64_t count = 1;
  for (const size_t dim : dims) {
    count *= in.dims[dim].max;
  }
  const Average average = average_of(node, kOutputScale, count);
  if (rank == 4 && dims == std::vector<size_t>{2, 3} && in.dims[2].max <= kMaxHeight && count <= kMaxArea) {
    return emit_windows(lowering, node, make_window(in.dims[2].max, in.dims[2].max, 1, 1, 0, 1),
                        make_window(in.dims[3].max, in.dims[3].max, 1, 1, 0, 1), average);
  }
  return emit_sums(lowering, node, dims, average);
}

}  // namespace et::backends::tosa::compiler
