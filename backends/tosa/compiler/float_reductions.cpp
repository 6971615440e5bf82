#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/tosa/compiler/float_operators.h"
#include "backends/tosa/compiler/limits.h"
#include "ops/arguments.h"
#include "ops/names.h"
#include "passes/quantized_values.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::constant_of;
using passes::int_of;
using passes::ints_of;
using passes::number_of;

constexpr const char* kTaken = "";
constexpr size_t kDims = ops::arguments::sum_dim_IntList::kDim;  // of all reductions that have them

std::string floats(const Question& q) {
  return is_floating(q.type(0).dtype) ? kTaken : "a form on integers is not written yet";
}
std::string bools(const Question& q) {
  return q.type(0).dtype == ScalarType::Bool ? kTaken : "a tensor that is not torch.bool";
}

std::string only_first(const Question& q, const char* others) {
  for (size_t i = 1; i < q.node.results().size(); ++i) {
    if (!q.node.graph()->is_unused(q.node.result(i))) {
      return others;
    }
  }
  return floats(q);
}

std::string softmax(const Question& q) {
  return q.type(0).rank() == 0 ? "a scalar" : q.type(0).dtype == q.result_type().dtype ? kTaken : "another result type";
}

/// Without arguments, or with dims as argument 1, one or several.
std::string reduction(const Question& q) {
  const bool has_dims = q.node.args().size() > 1 && !q.arg(kDims).is_none() && !q.arg(kDims).as<std::string>();
  if (has_dims && !ints_of(q.arg(kDims)) && !int_of(q.arg(kDims))) {
    return "dims that are computed at run time";
  }
  return q.type(0).dtype == q.result_type().dtype ? kTaken : "a result of another type";
}

std::string sum(const Question& q) {
  const std::string why = floats(q);
  return why.empty() ? reduction(q) : why;
}

/// Of integers as of floats.
std::string extreme(const Question& q) {
  return q.type(0).dtype == ScalarType::Bool ? "the largest of truth values" : reduction(q);
}

std::string truth(const Question& q) {
  const std::string why = bools(q);
  return why.empty() ? reduction(q) : why;
}

int64_t count_of(const Question& q);

std::string variance(const Question& q) {
  using namespace ops::arguments::var_correction;
  const std::string why = sum(q);
  if (!why.empty() || (!q.arg(kCorrection).is_none() && !number_of(q.arg(kCorrection)))) {
    return why.empty() ? "a correction that is computed at run time" : why;
  }
  const double left = static_cast<double>(count_of(q)) - number_of(q.arg(kCorrection)).value_or(1);
  return left > 0 ? kTaken : "a variance of too few elements";
}

std::string layer_norm(const Question& q) {
  using namespace ops::arguments::native_layer_norm;
  return ints_of(q.arg(kNormalizedShape)) ? only_first(q, "its mean or deviation is used")
                                          : "sizes that are computed at run time";
}

std::string group_norm(const Question& q) {
  using namespace ops::arguments::native_group_norm;
  return int_of(q.arg(kGroup)) ? only_first(q, "its mean or deviation is used")
                               : "groups that are computed at run time";
}

std::string batch_norm(const Question& q) {
  using namespace ops::arguments::_native_batch_norm_legit_no_training;
  const std::string why = constants_refusal(q, {kWeight, kBias, kRunningMean, kRunningVar});
  return why.empty() ? only_first(q, "its statistics are used") : why;
}

// ---- emitters

payload::DType type_of(const ir::Node& node) { return Lowering::type_of(node.result()->type.tensor.dtype); }

/// What a reduction works on: the value with its dims as axes, in a form in which the result can be reshaped.
struct Reduced {
  TensorId from = kNoTensor;
  Form form = Form::kRowMajor;
  std::vector<int32_t> axes;
  int64_t count = 1;  ///< elements that become one
};

std::vector<size_t> dims_of(const ir::Node& node) {
  const size_t rank = node.args()[0].value()->type.tensor.rank();
  std::vector<size_t> out;
  if (node.args().size() > 1) {
    std::vector<int64_t> given = ints_of(node.args()[kDims]).value_or(std::vector<int64_t>());
    if (const auto one = int_of(node.args()[kDims])) {
      given = {*one};
    }
    for (const int64_t dim : given) {
      out.push_back(static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim));
    }
  }
  if (out.empty()) {
    out.resize(rank);
    std::iota(out.begin(), out.end(), size_t{0});
  }
  std::sort(out.begin(), out.end());
  return out;
}

int64_t count_of(const Question& q) {
  int64_t count = 1;
  for (const size_t dim : dims_of(q.node)) {
    count *= q.type(0).dims[dim].max;
  }
  return count;
}

Reduced reduced(Lowering& lowering, const ir::Node& node) {
  const ir::Value* value = node.args()[0].value();
  const ir::TensorType& type = value->type.tensor;
  const std::vector<size_t> dims = dims_of(node);
  Reduced out;
  // Behind a reduction of all pixels both forms have the same order.
  size_t pixels = 0;
  for (const size_t dim : dims) {
    pixels += dim >= 2;
    out.count *= type.dims[dim].max;
  }
  const bool keeps_image = type.rank() == node.result()->type.tensor.rank() || pixels + 2 == type.rank();
  out.form = keeps_image ? lowering.form_of(value) : Form::kRowMajor;
  out.from = lowering.get(value, out.form);
  for (const size_t dim : dims) {
    out.axes.push_back(Lowering::axis_in(out.form, type.rank(), dim));
  }
  return out;
}

void set_reduced(Lowering& lowering, const ir::Node& node, const Reduced& of, TensorId result) {
  const ir::TensorType& type = node.result()->type.tensor;
  const Form form = type.rank() == node.args()[0].value()->type.tensor.rank() ? of.form : Form::kRowMajor;
  lowering.set(node.result(), form, lowering.reshape(result, Lowering::shape_of(type, form)));
}

TensorId over_axes(Arithmetic& in, payload::Op op, TensorId x, const std::vector<int32_t>& axes) {
  for (const int32_t axis : axes) {
    x = in.reduce(op, x, axis);
  }
  return x;
}

template <payload::Op kOp>
Error emit_reduction(Lowering& lowering, const ir::Node& node) {
  const Reduced of = reduced(lowering, node);
  Arithmetic in(lowering);
  set_reduced(lowering, node, of, over_axes(in, kOp, of.from, of.axes));
  return Error::Ok;
}

/// In 32 bits, as sums of many elements want it.
template <bool kIsMean>
Error emit_sum(Lowering& lowering, const ir::Node& node) {
  const Reduced of = reduced(lowering, node);
  Arithmetic in(lowering);
  TensorId sum = over_axes(in, payload::Op_REDUCE_SUM, in.cast(of.from, payload::DType_FP32), of.axes);
  sum = kIsMean ? in.scaled(sum, 1 / static_cast<double>(of.count)) : sum;
  set_reduced(lowering, node, of, in.cast(sum, type_of(node)));
  return Error::Ok;
}

/// Distances to the mean, and the sum of their squares.
struct Spread {
  TensorId distances, squares;
};
Spread spread_of(Arithmetic& in, TensorId x, const std::vector<int32_t>& axes, int64_t count) {
  const TensorId sum = over_axes(in, payload::Op_REDUCE_SUM, x, axes);
  const TensorId distances = in.sub(x, in.scaled(sum, 1 / static_cast<double>(count)));
  return {distances, over_axes(in, payload::Op_REDUCE_SUM, in.mul(distances, distances), axes)};
}

template <bool kIsRoot>
Error emit_variance(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::var_correction;
  const Reduced of = reduced(lowering, node);
  Arithmetic in(lowering);
  const double left = static_cast<double>(of.count) - number_of(node.args()[kCorrection]).value_or(1);
  TensorId out = spread_of(in, in.cast(of.from, payload::DType_FP32), of.axes, of.count).squares;
  out = in.scaled(out, 1 / left);
  out = kIsRoot ? in.unary(payload::Op_RECIPROCAL, in.unary(payload::Op_RSQRT, out)) : out;
  set_reduced(lowering, node, of, in.cast(out, type_of(node)));
  return Error::Ok;
}

TensorId log_softmax_of(Arithmetic& in, TensorId x, int32_t axis) {
  const TensorId distances = in.sub(x, in.largest(x, axis));
  return in.sub(distances, in.unary(payload::Op_LOG, in.sum(in.unary(payload::Op_EXP, distances), axis)));
}

template <bool kIsLog>
Error emit_softmax(Lowering& lowering, const ir::Node& node) {
  const ir::Value* value = node.args()[0].value();
  const Form form = lowering.form_of(value);
  const size_t rank = value->type.tensor.rank();
  const int64_t dim = *int_of(node.args()[ops::arguments::_softmax::kDim]);
  const int32_t axis =
      Lowering::axis_in(form, rank, static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim));
  Arithmetic in(lowering);
  const TensorId x = in.cast(lowering.get(value, form), payload::DType_FP32);
  const TensorId out = kIsLog ? log_softmax_of(in, x, axis) : softmax_of(in, x, axis);
  lowering.set(node.result(), form, in.cast(out, type_of(node)));
  return Error::Ok;
}

/// Each row of [rows, length] with mean 0 and deviation 1.
TensorId normalised(Arithmetic& in, TensorId rows, double epsilon) {
  const int64_t length = in.shape(rows)[1];
  const Spread spread = spread_of(in, rows, {1}, length);
  const TensorId variance = in.shifted(in.scaled(spread.squares, 1 / static_cast<double>(length)), epsilon);
  return in.mul(spread.distances, in.unary(payload::Op_RSQRT, variance));
}

/// `x` times a parameter plus another, both where they are given, in a shape that broadcasts.
TensorId with_parameters(Lowering& lowering, Arithmetic& in, TensorId x, const ir::Argument& weight,
                         const ir::Argument& bias, const Shape& shape) {
  const auto parameter = [&](const ir::Argument& argument) {
    return in.cast(lowering.reshape(lowering.get(argument.value(), Form::kRowMajor), shape), payload::DType_FP32);
  };
  x = weight.is_none() ? x : in.mul(x, parameter(weight));
  return bias.is_none() ? x : in.add(x, parameter(bias));
}

void set_normalised(Lowering& lowering, Arithmetic& in, const ir::Node& node, TensorId out) {
  const Shape shape = Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor);
  lowering.set(node.result(), Form::kRowMajor, lowering.reshape(in.cast(out, type_of(node)), shape));
}

TensorId rows_of(Lowering& lowering, Arithmetic& in, const ir::Node& node, int64_t length) {
  const ir::Value* value = node.args()[0].value();
  const auto rows = static_cast<int32_t>(value->type.tensor.max_numel() / length);
  return in.cast(lowering.reshape(lowering.get(value, Form::kRowMajor), {rows, static_cast<int32_t>(length)}),
                 payload::DType_FP32);
}

Error emit_layer_norm(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::native_layer_norm;
  const auto& args = node.args();
  int64_t length = 1;
  const std::vector<int64_t> sizes = *ints_of(args[kNormalizedShape]);
  for (const int64_t size : sizes) {
    length *= size;
  }
  Arithmetic in(lowering);
  const TensorId out = normalised(in, rows_of(lowering, in, node, length), *number_of(args[kEps]));
  set_normalised(lowering, in, node,
                 with_parameters(lowering, in, out, args[kWeight], args[kBias], {1, static_cast<int32_t>(length)}));
  return Error::Ok;
}

Error emit_group_norm(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::native_group_norm;
  const auto& args = node.args();
  const ir::TensorType& type = node.result()->type.tensor;
  const int64_t batch = type.dims[0].max, channels = type.dims[1].max;
  Arithmetic in(lowering);
  const TensorId rows = rows_of(lowering, in, node, type.max_numel() / batch / *int_of(args[kGroup]));
  const TensorId out = lowering.reshape(normalised(in, rows, *number_of(args[kEps])),
                                        {static_cast<int32_t>(batch), static_cast<int32_t>(channels),
                                         static_cast<int32_t>(type.max_numel() / batch / channels)});
  set_normalised(
      lowering, in, node,
      with_parameters(lowering, in, out, args[kWeight], args[kBias], {1, static_cast<int32_t>(channels), 1}));
  return Error::Ok;
}

/// A factor and a summand for each channel.
Error emit_batch_norm(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::_native_batch_norm_legit_no_training;
  const auto& args = node.args();
  const ir::Value* value = args[kInput].value();
  const auto numbers = [&](size_t i, double otherwise) {
    const ir::Constant* constant = constant_of(lowering.program(), args[i]);
    return constant == nullptr ? std::vector<double>(static_cast<size_t>(value->type.tensor.dims[1].max), otherwise)
                               : passes::numbers_of(*constant);
  };
  const std::vector<double> mean = numbers(kRunningMean, 0), variance = numbers(kRunningVar, 1),
                            weight = numbers(kWeight, 1), bias = numbers(kBias, 0);
  std::vector<double> factors, summands;
  for (size_t i = 0; i < mean.size(); ++i) {
    factors.push_back(weight[i] / std::sqrt(variance[i] + *number_of(args[kEps])));
    summands.push_back(bias[i] - mean[i] * factors.back());
  }
  const Form form = lowering.form_of(value);
  Arithmetic in(lowering);
  const TensorId x = lowering.get(value, form);
  Shape shape(lowering.writer.shape_of(x).size(), 1);
  shape[static_cast<size_t>(Lowering::axis_in(form, value->type.tensor.rank(), 1))] = static_cast<int32_t>(mean.size());
  const payload::DType type = lowering.writer.type_of(x);
  const TensorId scaled = in.mul(x, lowering.reals(type, shape, factors));
  lowering.set(node.result(), form, in.add(scaled, lowering.reals(type, shape, summands)));
  return Error::Ok;
}

constexpr OperatorRow kRows[] = {
    {op::_softmax, "REDUCE_MAX, EXP, REDUCE_SUM, RECIPROCAL", &softmax, &emit_softmax<false>},
    {op::_log_softmax, "REDUCE_MAX, EXP, REDUCE_SUM, LOG", &softmax, &emit_softmax<true>},
    {op::native_layer_norm, "REDUCE_SUM, RSQRT, MUL", &layer_norm, &emit_layer_norm},
    {op::native_group_norm, "REDUCE_SUM, RSQRT, MUL", &group_norm, &emit_group_norm},
    {op::_native_batch_norm_legit_no_training, "MUL, ADD", &batch_norm, &emit_batch_norm},
    {op::sum, "REDUCE_SUM", &sum, &emit_sum<false>},
    {op::sum_dim_IntList, "REDUCE_SUM", &sum, &emit_sum<false>},
    {op::mean, "REDUCE_SUM, MUL", &sum, &emit_sum<true>},
    {op::mean_dim, "REDUCE_SUM, MUL", &sum, &emit_sum<true>},
    {op::var_correction, "REDUCE_SUM, MUL", &variance, &emit_variance<false>},
    {op::std_correction, "REDUCE_SUM, MUL, RSQRT", &variance, &emit_variance<true>},
    {op::amax, "REDUCE_MAX", &extreme, &emit_reduction<payload::Op_REDUCE_MAX>},
    {op::amin, "REDUCE_MIN", &extreme, &emit_reduction<payload::Op_REDUCE_MIN>},
    {op::prod_dim_int, "REDUCE_PRODUCT", &sum, &emit_reduction<payload::Op_REDUCE_PRODUCT>},
    {op::any_dim, "REDUCE_ANY", &truth, &emit_reduction<payload::Op_REDUCE_ANY>},
    {op::all_dim, "REDUCE_ALL", &truth, &emit_reduction<payload::Op_REDUCE_ALL>},
};

}  // namespace

TensorId softmax_of(Arithmetic& in, TensorId x, int32_t axis) {
  const TensorId powers = in.unary(payload::Op_EXP, in.sub(x, in.largest(x, axis)));
  return in.mul(powers, in.unary(payload::Op_RECIPROCAL, in.sum(powers, axis)));
}

Span<const OperatorRow> float_reduction_operators() { return kRows; }

}  // namespace et::backends::tosa::compiler
