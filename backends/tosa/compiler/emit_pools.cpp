#include <algorithm>
#include <numeric>

#include "backends/tosa/compiler/emitters.h"
#include "backends/tosa/compiler/limits.h"
#include "backends/tosa/compiler/op_support.h"
#include "backends/tosa/compiler/windows.h"
#include "ir/op_views.h"
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

/// Of a mean or average pool, whose input, its scale and its zero point come first; from `output_scale` on come the
/// result's.
Average average_of(const ir::Node& node, size_t output_scale, int64_t count) {
  const auto& args = node.args();
  const ops::EtQuantizedMean call(node);
  const auto in = static_cast<float>(*number_of(call.self_scale())),
             to = static_cast<float>(*number_of(args[output_scale]));
  const Output output{*int_of(args[output_scale + 1]), *int_of(args[output_scale + 2]),
                      *int_of(args[output_scale + 3])};
  return {in / to * (1.0f / static_cast<float>(count)), *int_of(call.self_zero_point()), count, output};
}

/// Most that an element of 8 or 16 bits adds to a sum.
constexpr int64_t kSteps[] = {255, 32768};
bool of_16_bits(const ir::Node& node) { return node.result()->type.tensor.dtype == ScalarType::Short; }

/// Makes `sums` [N, rows, columns, channels] the node's result; any shape with as many elements will do.
Error emit_averages(Lowering& lowering, const ir::Node& node, TensorId sums, const Average& average, int64_t area) {
  TensorId out = kNoTensor;
  ET_RETURN_IF_ERROR(
      lowering.to_integers(node, sums, {average.factor}, {area * kSteps[of_16_bits(node)]}, average.output, &out));
  const ir::TensorType& type = node.result()->type.tensor;
  const Form form = type.rank() == 4 ? Form::kImage : Form::kRowMajor;
  lowering.set(node.result(), form, lowering.reshape(out, Lowering::shape_of(type, form)));
  return Error::Ok;
}

TensorId reduce_sum(Lowering& lowering, TensorId from, size_t dim) {
  Shape shape = lowering.writer.shape_of(from);
  shape[dim] = 1;
  const TensorId out = lowering.writer.add_tensor(payload::DType_INT32, shape);
  const auto attribute = payload::CreateReduceSumAttribute(lowering.writer.builder, static_cast<int32_t>(dim));
  lowering.writer.add(payload::Op_REDUCE_SUM, attribute.Union(), {from}, out);
  return out;
}

/// Sums of an image's windows: a convolution of each channel with ones.
TensorId window_sums(Lowering& lowering, TensorId image, const Windows& windows, int64_t zero_point) {
  PayloadWriter& writer = lowering.writer;
  const Shape shape = writer.shape_of(image);
  const int32_t channels = shape[3];
  const std::vector<int32_t> kernel = windows.kernel(), pad = windows.pad(), stride = windows.stride(),
                             dilation = {1, 1};
  const std::vector<int8_t> ones(static_cast<size_t>(kernel[0]) * static_cast<size_t>(kernel[1] * channels), 1);
  const std::vector<int32_t> zeros(static_cast<size_t>(channels), 0);
  const std::vector<TensorId> inputs = {
      image, writer.add_numbers(payload::DType_INT8, {kernel[0], kernel[1], channels, 1}, ones),
      lowering.bias(image, zeros), lowering.scalar(writer.type_of(image), zero_point),
      lowering.scalar(payload::DType_INT8, 0)};
  const TensorId sums = writer.add_tensor(
      lowering.sum_type(image),
      {shape[0], static_cast<int32_t>(windows.rows.out), static_cast<int32_t>(windows.columns.out), channels});
  const auto attribute = payload::CreateDepthwiseConv2dAttributeDirect(writer.builder, &pad, &stride, &dilation, false,
                                                                       lowering.sum_type(image));
  writer.add(payload::Op_DEPTHWISE_CONV2D, attribute.Union(), inputs, sums);
  return sums;
}

/// Sums of whole images. A window as large as the image keeps an NPU waiting, and the other forms want a RESHAPE, which
/// copies where the image has other readers. So rows are summed up as windows, and then halves of what is left.
TensorId whole_sums(Lowering& lowering, TensorId image, int64_t zero_point) {
  PayloadWriter& writer = lowering.writer;
  const Shape shape = writer.shape_of(image);
  const Windows rows{make_window(shape[1], shape[1], 1, 1, 0, 1), make_window(shape[2], 1, 1, 1, 0, shape[2])};
  TensorId sums = window_sums(lowering, image, rows, zero_point);
  if (writer.type_of(sums) == payload::DType_INT48) {  // they fit 32 bits (op_support.cpp), which can be added
    sums = lowering.rescale(sums, payload::DType_INT32, {Rescale{1 << 14, 14}}, 0, 0);
  }
  const auto columns = [&](int32_t first, int32_t count) {
    return lowering.slice(sums, {0, 0, first, 0}, {shape[0], 1, count, shape[3]});
  };
  const auto add = [&](TensorId a, TensorId b) { return lowering.binary(payload::Op_ADD, a, b, writer.shape_of(a)); };
  std::vector<TensorId> odd;
  for (int32_t left = shape[2]; left > 1; left /= 2) {
    if (left % 2 == 1) {
      odd.push_back(columns(left - 1, 1));
    }
    sums = add(columns(0, left / 2), columns(left / 2, left / 2));
  }
  return std::accumulate(odd.begin(), odd.end(), sums, add);
}

/// Averages of windows: the sums are exact, and rounded once. AVG_POOL2D would round to the scale of the input first.
Error emit_windows(Lowering& lowering, const ir::Node& node, const Windows& windows, const Average& average) {
  const TensorId image =
      lowering.crop(lowering.get(node.args()[0].value(), Form::kImage), windows.rows.crop, windows.columns.crop);
  const Shape shape = lowering.writer.shape_of(image);
  const int64_t area = windows.rows.kernel * windows.columns.kernel;
  const bool is_whole = windows.rows.out * windows.columns.out == 1 && windows.rows.kernel == shape[1] &&
                        windows.columns.kernel == shape[2];
  const TensorId sums = is_whole ? whole_sums(lowering, image, average.zero_point)
                                 : window_sums(lowering, image, windows, average.zero_point);
  return emit_averages(lowering, node, sums, average, area);
}

/// Largest window that is convolved with ones; sums over larger ones are those of their rows and columns.
constexpr int64_t kMaxHeight = 64, kMaxArea = 4096;

Error emit_sums(Lowering& lowering, const ir::Node& node, const std::vector<size_t>& dims, const Average& average) {
  TensorId sums = lowering.widen(lowering.get(node.args()[0].value(), Form::kRowMajor), average.zero_point);
  for (const size_t dim : dims) {
    sums = reduce_sum(lowering, sums, dim);
  }
  ET_RETURN_IF_ERROR(lowering.to_integers(node, sums, {average.factor}, {average.count * kSteps[of_16_bits(node)]},
                                          average.output, &sums));
  const Shape shape = Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor);
  lowering.set(node.result(), Form::kRowMajor, lowering.reshape(sums, shape));
  return Error::Ok;
}

/// Makes windows move by at most `most`, to more results; gives how many of these become one.
int64_t shorten_steps(Window& w, int64_t most) {
  int64_t stride = std::min(w.stride, most);
  while (w.stride % stride != 0) {
    --stride;
  }
  const int64_t steps = w.stride / stride;
  w.stride = stride;
  w.out = (w.out - 1) * steps + 1;
  return steps;
}

}  // namespace

Error emit_max_pool(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::max_pool2d_with_indices;
  PayloadWriter& writer = lowering.writer;
  Windows windows = windows_of(node, kKernelSize, kStride, kPadding);
  const TensorId image =
      lowering.crop(lowering.get(node.args()[0].value(), Form::kImage), windows.rows.crop, windows.columns.crop);
  const Accelerator* device = read_target(lowering.compile_specs()).accelerator;
  const int64_t most = device == nullptr ? kMaxKernel : device->max_stride;
  const int64_t down = shorten_steps(windows.rows, most), across = shorten_steps(windows.columns, most);
  const std::vector<int32_t> kernel = windows.kernel(), stride = windows.stride(), pad = windows.pad();
  const Shape shape = writer.shape_of(image);
  const TensorId out = writer.add_tensor(writer.type_of(image), {shape[0], static_cast<int32_t>(windows.rows.out),
                                                                 static_cast<int32_t>(windows.columns.out), shape[3]});
  const auto attribute = payload::CreateMaxPool2dAttributeDirect(writer.builder, &kernel, &stride, &pad,
                                                                 payload::NanPropagationMode_PROPAGATE);
  writer.add(payload::Op_MAX_POOL2D, attribute.Union(), {image}, out);
  lowering.set(node.result(), Form::kImage, lowering.every(lowering.every(out, 1, down), 2, across));
  return Error::Ok;
}

Error emit_avg_pool(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_avg_pool2d;
  const Windows windows = windows_of(node, kKernelSize, kStride, kPadding);
  const int64_t area = windows.rows.kernel * windows.columns.kernel;
  const int64_t count = int_of(node.args()[kDivisorOverride]).value_or(area);
  return emit_windows(lowering, node, windows, average_of(node, kOutputScale, count));
}

Error emit_adaptive_pool(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_adaptive_avg_pool2d;
  const Windows windows = adaptive_windows_of(node);
  const int64_t area = windows.rows.kernel * windows.columns.kernel;
  const Average average = average_of(node, kOutputScale, area);
  const bool is_whole = windows.rows.out == 1 && windows.columns.out == 1;
  if (is_whole && (windows.rows.kernel > kMaxHeight || area > kMaxArea)) {
    return emit_sums(lowering, node, {2, 3}, average);
  }
  return emit_windows(lowering, node, windows, average);
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
    const auto all = [&](size_t d) { return make_window(in.dims[d].max, in.dims[d].max, 1, 1, 0, 1); };
    return emit_windows(lowering, node, {all(2), all(3)}, average);
  }
  return emit_sums(lowering, node, dims, average);
}

}  // namespace et::backends::tosa::compiler
