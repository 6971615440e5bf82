#include <algorithm>

#include "backends/tosa/compiler/float_operators.h"
#include "backends/tosa/compiler/limits.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::int_of;

std::string avg_pool(const Question& q) {
  using namespace ops::arguments::avg_pool2d;
  std::string why = pool_refusal(q, kKernelSize, kStride, kPadding);
  return why.empty() ? window_refusal(q, windows_of(q.node, kKernelSize, kStride, kPadding), true) : why;
}

std::string adaptive_pool(const Question& q) {
  const std::string why = adaptive_pool_refusal(q);
  return why.empty() ? window_refusal(q, adaptive_windows_of(q.node), true) : why;
}

/// AVG_POOL2D divides by what a window has of the image.
TensorId averages(Lowering& lowering, const ir::Node& node, TensorId image, const Windows& windows) {
  PayloadWriter& writer = lowering.writer;
  const std::vector<int32_t> kernel = windows.kernel(), stride = windows.stride(), pad = windows.pad();
  const TensorId zero = lowering.scalar(writer.type_of(image), 0);
  const TensorId out =
      writer.add_tensor(writer.type_of(image), Lowering::shape_of(node.result()->type.tensor, Form::kImage));
  const auto attribute =
      payload::CreateAvgPool2dAttributeDirect(writer.builder, &kernel, &stride, &pad, lowering.accumulator(image));
  writer.add(payload::Op_AVG_POOL2D, attribute.Union(), {image, zero, zero}, out);
  return out;
}

/// Puts zeros around an image that count as elements, so that the windows have less padding.
TensorId padded(Lowering& lowering, TensorId image, Window& rows, Window& columns, const std::vector<int64_t>& most) {
  PayloadWriter& writer = lowering.writer;
  std::vector<int64_t> pairs(8, 0);
  Shape shape = writer.shape_of(image);
  for (size_t d = 0; d < 2; ++d) {
    Window& window = d == 0 ? rows : columns;
    pairs[2 + 2 * d] = window.before;
    pairs[3 + 2 * d] = std::min(window.after, most[d]);
    window.after -= pairs[3 + 2 * d];
    window.before = 0;
    shape[1 + d] += static_cast<int32_t>(pairs[2 + 2 * d] + pairs[3 + 2 * d]);
  }
  if (std::all_of(pairs.begin(), pairs.end(), [](int64_t p) { return p == 0; })) {
    return image;
  }
  const TensorId out = writer.add_tensor(writer.type_of(image), shape);
  writer.add(payload::Op_PAD, writer.no_content(),
             {image, writer.add_shape(pairs), lowering.scalar(writer.type_of(image), 0)}, out);
  return out;
}

Error emit_avg_pool(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::avg_pool2d;
  const auto& args = node.args();
  Windows windows = windows_of(node, kKernelSize, kStride, kPadding);
  TensorId image =
      lowering.crop(lowering.get(args[kSelf].value(), Form::kImage), windows.rows.crop, windows.columns.crop);
  const auto divisor = int_of(args[kDivisorOverride]);
  if (divisor) {  // with all elements there, averages are sums over one number
    image = padded(lowering, image, windows.rows, windows.columns, {kMaxKernel, kMaxKernel});
  } else if (int_of(args[kCountIncludePad]).value_or(1) != 0) {
    image = padded(lowering, image, windows.rows, windows.columns, *spatial(args[kPadding], 2, {0}));
  }
  TensorId out = averages(lowering, node, image, windows);
  if (divisor) {
    const auto area = static_cast<double>(windows.rows.kernel * windows.columns.kernel);
    out = Arithmetic(lowering).scaled(out, area / static_cast<double>(*divisor));
  }
  lowering.set(node.result(), Form::kImage, out);
  return Error::Ok;
}

Error emit_adaptive_pool(Lowering& lowering, const ir::Node& node) {
  const TensorId image = lowering.get(node.args()[0].value(), Form::kImage);
  lowering.set(node.result(), Form::kImage, averages(lowering, node, image, adaptive_windows_of(node)));
  return Error::Ok;
}

constexpr OperatorRow kRows[] = {
    {op::avg_pool2d, "PAD, AVG_POOL2D", &avg_pool, &emit_avg_pool},
    {op::_adaptive_avg_pool2d, "AVG_POOL2D", &adaptive_pool, &emit_adaptive_pool},
};

}  // namespace

Span<const OperatorRow> float_pool_operators() { return kRows; }

}  // namespace et::backends::tosa::compiler
