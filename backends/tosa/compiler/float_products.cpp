#include <cmath>
#include <limits>

#include "backends/tosa/compiler/float_operators.h"
#include "backends/tosa/compiler/limits.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::constant_of;
using passes::int_of;
using passes::number_of;

constexpr const char* kTaken = "";

// ---- checks

std::string convolution(const Question& q) {
  using namespace ops::arguments::convolution;
  const std::string why = constants_refusal(q, {kWeight, kBias});
  return why.empty() ? convolution_refusal(q, kConvolutionOfFloats) : why;
}

std::string matrices(const Question&) { return kTaken; }

std::string linear(const Question& q) {
  using namespace ops::arguments::linear;
  return q.type(kInput).rank() == 0 || q.type(kWeight).rank() != 2 ? "a scalar, or a weight that is no matrix"
                                                                   : constants_refusal(q, {kWeight, kBias});
}

std::string sum_and_product(const Question& q) {
  using namespace ops::arguments::addmm;
  return number_of(q.arg(kBeta)) && number_of(q.arg(kAlpha)) ? kTaken : "a factor that is computed at run time";
}

std::string attention(const Question& q) {
  using namespace ops::arguments::scaled_dot_product_attention;
  if (int_of(q.arg(kEnableGqa)).value_or(1) != 0 || number_of(q.arg(kDropoutP)).value_or(1) != 0) {
    return "attention with groups of heads, or that drops weights";
  }
  const std::vector<ir::Dim>&query = q.type(kQuery).dims, &key = q.type(kKey).dims;
  for (size_t d = 0; d + 2 < query.size(); ++d) {
    if (query.size() != key.size() || query[d].max != key[d].max) {
      return "a batch of queries that is not that of the keys";
    }
  }
  return q.arg(kScale).is_none() || number_of(q.arg(kScale)) ? kTaken : "a scale that is computed at run time";
}

// ---- emitters

/// Elements from `first` on of a constant, `count` of them.
std::string elements_of(const ir::Constant& constant, size_t first, size_t count) {
  const size_t size = element_size(constant.type.dtype);
  return {static_cast<const char*>(constant.data) + first * size, count * size};
}

/// Numbers of a constant vector, or a zero where there is none.
TensorId bias_of(Lowering& lowering, const ir::Argument& bias, payload::DType type, size_t first, size_t count) {
  const ir::Constant* constant = constant_of(lowering.program(), bias);
  return constant == nullptr
             ? lowering.scalar(type, 0)
             : lowering.writer.add_constant(type, {static_cast<int32_t>(count)}, elements_of(*constant, first, count));
}

Error emit_convolution(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::convolution;
  const auto& args = node.args();
  const Convolution c(node, kConvolutionOfFloats);
  const ir::Constant& weight = *constant_of(lowering.program(), args[kWeight]);
  const size_t size = element_size(weight.type.dtype);
  const auto count = static_cast<size_t>(weight.type.numel() / c.out_channels);
  const TensorId image = c.cropped(lowering, lowering.get(args[kInput].value(), Form::kImage));
  const payload::DType type = lowering.writer.type_of(image);
  std::vector<TensorId> parts;
  for (const Convolution::Group& group : c.parts()) {
    const std::string own = elements_of(weight, group.first * count, group.count * count);
    const TensorId filters = lowering.writer.add_constant(type, c.weight_shape(), c.arranged_weights(own.data(), size));
    const TensorId bias = bias_of(lowering, args[kBias], type, group.first, group.count);
    parts.push_back(c.convolve(lowering, c.part_of(lowering, image, group), filters, bias, 0));
  }
  lowering.set(node.result(), Form::kImage, lowering.concat(parts, 3));
  return Error::Ok;
}

Error emit_linear(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::linear;
  const auto& args = node.args();
  const ir::Constant& weight = *constant_of(lowering.program(), args[kWeight]);
  const auto outs = static_cast<int32_t>(weight.type.dims[0].max), ins = static_cast<int32_t>(weight.type.dims[1].max);
  const auto rows = static_cast<int32_t>(args[kInput].value()->type.tensor.max_numel() / ins);
  const TensorId image = lowering.reshape(lowering.get(args[kInput].value(), Form::kRowMajor), {1, rows, 1, ins});
  const payload::DType type = lowering.writer.type_of(image);
  const TensorId filters = lowering.writer.add_constant(
      type, {outs, 1, 1, ins}, elements_of(weight, 0, static_cast<size_t>(weight.type.numel())));
  const TensorId bias = bias_of(lowering, args[kBias], type, 0, static_cast<size_t>(outs));
  const TensorId out = Convolution::of_rows(rows, outs).convolve(lowering, image, filters, bias, 0);
  lowering.set(node.result(), Form::kRowMajor,
               lowering.reshape(out, Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor)));
  return Error::Ok;
}

/// MATMUL of two batches of matrices, added up in 32 bits.
TensorId product(Lowering& lowering, TensorId a, TensorId b) {
  PayloadWriter& writer = lowering.writer;
  const Shape left = writer.shape_of(a), right = writer.shape_of(b);
  const payload::DType type = writer.type_of(a);
  const TensorId zero = lowering.scalar(type, 0);
  const TensorId out = writer.add_tensor(lowering.accumulator(a), {left[0], left[1], right[2]});
  writer.add(payload::Op_MATMUL, writer.no_content(), {a, b, zero, zero}, out);
  return Arithmetic(lowering).cast(out, type);
}

/// A value as a batch of matrices.
TensorId matrices_of(Lowering& lowering, const ir::Argument& argument) {
  const Shape shape = Lowering::shape_of(argument.value()->type.tensor, Form::kRowMajor);
  int32_t batch = 1;
  for (size_t d = 0; d + 2 < shape.size(); ++d) {
    batch *= shape[d];
  }
  return lowering.reshape(lowering.get(argument.value(), Form::kRowMajor),
                          {batch, shape[shape.size() - 2], shape[shape.size() - 1]});
}

void set_reshaped(Lowering& lowering, const ir::Node& node, TensorId result) {
  lowering.set(node.result(), Form::kRowMajor,
               lowering.reshape(result, Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor)));
}

/// mm and bmm.
Error emit_product(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::mm;
  const TensorId a = matrices_of(lowering, node.args()[kSelf]), b = matrices_of(lowering, node.args()[kMat2]);
  set_reshaped(lowering, node, product(lowering, a, b));
  return Error::Ok;
}

/// addmm and baddbmm.
Error emit_sum_and_product(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::addmm;
  const auto& args = node.args();
  Arithmetic in(lowering);
  TensorId out = product(lowering, matrices_of(lowering, args[kMat1]), matrices_of(lowering, args[kMat2]));
  out = in.scaled(out, *number_of(args[kAlpha]));
  if (const double beta = *number_of(args[kBeta]); beta != 0) {
    const ir::Value* added = args[kSelf].value();
    Shape shape = Lowering::shape_of(added->type.tensor, Form::kRowMajor);
    shape.insert(shape.begin(), 3 - shape.size(), 1);
    out = in.add(out, in.scaled(lowering.reshape(lowering.get(added, Form::kRowMajor), shape), beta));
  }
  set_reshaped(lowering, node, out);
  return Error::Ok;
}

/// Scores with what a query must not see made -inf.
TensorId masked(Lowering& lowering, Arithmetic& in, TensorId scores, const ir::Node& node) {
  using namespace ops::arguments::scaled_dot_product_attention;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  PayloadWriter& writer = lowering.writer;
  const Shape shape = writer.shape_of(scores);
  if (const ir::Value* mask = node.args()[kAttnMask].value(); mask != nullptr) {
    Shape own = Lowering::shape_of(mask->type.tensor, Form::kRowMajor);
    own.insert(own.begin(), shape.size() - own.size(), 1);
    const TensorId given = lowering.reshape(lowering.get(mask, Form::kRowMajor), own);
    scores = writer.type_of(given) == payload::DType_BOOL
                 ? in.select(given, scores, in.real(scores, static_cast<double>(kHidden)))
                 : in.add(scores, given);
  }
  if (*int_of(node.args()[kIsCausal]) != 0) {
    const int32_t rows = shape[shape.size() - 2], columns = shape.back();
    std::string sees;
    for (int32_t row = 0; row < rows; ++row) {
      for (int32_t column = 0; column < columns; ++column) {
        sees.push_back(static_cast<char>(column <= row));
      }
    }
    Shape own(shape.size(), 1);
    own[shape.size() - 2] = rows;
    own[shape.size() - 1] = columns;
    const TensorId seen = writer.add_constant(payload::DType_BOOL, own, sees);
    scores = in.select(seen, scores, in.real(scores, static_cast<double>(kHidden)));
  }
  return scores;
}

Error emit_attention(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::scaled_dot_product_attention;
  const auto& args = node.args();
  Arithmetic in(lowering);
  const Shape query = Lowering::shape_of(args[kQuery].value()->type.tensor, Form::kRowMajor);
  const TensorId keys = lowering.transpose(matrices_of(lowering, args[kKey]), {0, 2, 1});
  TensorId scores = product(lowering, matrices_of(lowering, args[kQuery]), keys);
  scores = in.scaled(scores, number_of(args[kScale]).value_or(1 / std::sqrt(static_cast<double>(query.back()))));
  const Shape flat = lowering.writer.shape_of(scores);
  Shape whole = query;
  whole.back() = flat[2];
  scores = masked(lowering, in, lowering.reshape(scores, whole), node);
  const TensorId shares = softmax_of(in, scores, static_cast<int32_t>(whole.size()) - 1);
  set_reshaped(lowering, node, product(lowering, lowering.reshape(shares, flat), matrices_of(lowering, args[kValue])));
  return Error::Ok;
}

constexpr OperatorRow kRows[] = {
    {op::convolution, "CONV2D, DEPTHWISE_CONV2D or TRANSPOSE_CONV2D", &convolution, &emit_convolution},
    {op::linear, "CONV2D", &linear, &emit_linear},
    {op::mm, "MATMUL", &matrices, &emit_product},
    {op::bmm, "MATMUL", &matrices, &emit_product},
    {op::addmm, "MATMUL, ADD", &sum_and_product, &emit_sum_and_product},
    {op::baddbmm, "MATMUL, ADD", &sum_and_product, &emit_sum_and_product},
    {op::scaled_dot_product_attention, "MATMUL, EXP, REDUCE_SUM", &attention, &emit_attention},
};

}  // namespace

Span<const OperatorRow> float_product_operators() { return kRows; }

}  // namespace et::backends::tosa::compiler
