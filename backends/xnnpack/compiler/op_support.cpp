#include "backends/xnnpack/compiler/op_support.h"

#include <algorithm>
#include <cmath>

#include "backends/xnnpack/compiler/bounds.h"
#include "backends/xnnpack/compiler/emitters.h"
#include "backends/xnnpack/compiler/image_support.h"
#include "backends/xnnpack/compiler/quantization.h"
#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/clamps.h"
#include "passes/rewrite.h"

namespace et::backends::xnnpack {
namespace {

using passes::int_of;
using passes::ints_of;
using passes::number_of;

constexpr size_t kMaxRank = 6;  // the library's
constexpr const char* kTaken = "";

bool is_float(const ir::TensorType& type) { return type.dtype == ScalarType::Float || type.dtype == ScalarType::Half; }

/// A dimension argument as a position; nothing when it is no literal.
std::optional<size_t> dim_of(const ir::Argument& argument, size_t rank) {
  const auto dim = int_of(argument);
  if (!dim || *dim < -static_cast<int64_t>(rank) || *dim >= static_cast<int64_t>(rank)) {
    return std::nullopt;
  }
  return static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(rank) : *dim);
}

std::string elementwise(const Question&) { return kTaken; }

std::string binary(const Question& q) {
  const ops::AddTensor call(q.node);
  const ir::TensorType *const self = type_of(call.self()), *const other = type_of(call.other());
  if (self == nullptr) {
    return "its first operand is a number";
  }
  if (other == nullptr && !number_of(call.other())) {
    return "an operand that is computed at run time and is no tensor";
  }
  if (is_constant(call.self()) && (other == nullptr || is_constant(call.other()))) {
    return "compile time: all operands are constants";
  }
  const ScalarType dtype = q.result_type().dtype;
  return self->dtype == dtype && (other == nullptr || other->dtype == dtype) ? kTaken : "operands of different types";
}

std::string add_or_sub(const Question& q) {
  const auto alpha = q.node.args().size() > 2 ? number_of(ops::AddTensor(q.node).alpha()) : std::optional<double>(1);
  return alpha && *alpha == 1 ? binary(q) : "a factor alpha";
}

std::string reversed_sub(const Question& q) {
  const ops::RsubScalar call(q.node);
  const auto alpha = number_of(call.alpha());
  return alpha && *alpha == 1 && number_of(call.other()) ? kTaken : "a factor alpha, or a number computed at run time";
}

std::string power(const Question& q) {
  const auto exponent = number_of(ops::PowTensorScalar(q.node).exponent());
  return exponent && (*exponent == 2 || *exponent == 0.5 || *exponent == -0.5) ? kTaken
                                                                               : "only exponents 2, 0.5 and -0.5";
}

std::string clamp(const Question& q) {
  const ops::Clamp call(q.node);
  const auto is_known = [](const ir::Argument& bound) { return bound.is_none() || number_of(bound).has_value(); };
  if (!is_known(call.min()) || !is_known(call.max())) {
    return "a bound that is computed at run time";
  }
  return passes::clamp_of(q.node) ? kTaken : "its lower bound is above the upper one";
}

std::string gelu(const Question& q) {
  const auto* approximate = ops::Gelu(q.node).approximate().as<std::string>();
  return approximate == nullptr || *approximate == "none" ? kTaken : "the tanh approximation";
}

std::string elu(const Question& q) {
  const ops::Elu call(q.node);
  if (number_of(call.scale()) != 1 || number_of(call.input_scale()) != 1) {
    return "a scale";
  }
  const auto alpha = number_of(call.alpha());
  return alpha && *alpha > 0 && std::isnormal(static_cast<float>(*alpha)) ? kTaken : "an alpha that is not positive";
}

std::string leaky_relu(const Question& q) {
  const auto slope = number_of(ops::LeakyRelu(q.node).negative_slope());
  return slope && std::isfinite(*slope) && std::isnormal(static_cast<float>(*slope))
             ? kTaken
             : "a slope that is zero or no number";
}

std::string prelu(const Question& q) {
  const ops::PreluKernel_ call(q.node);
  if (!is_constant(call.weight())) {
    return "slopes that are not constant";
  }
  const size_t rank = type_of(call.self())->rank();
  return rank >= 2 && rank <= 4 ? kTaken : "only ranks 2 to 4";
}

std::string softmax(const Question& q) {
  const ops::Softmax_ call(q.node);
  const size_t rank = type_of(call.self())->rank();
  const auto dim = rank == 0 ? std::nullopt : dim_of(call.dim(), rank);
  const bool over_channels = dim && *dim == 1 && (rank == 3 || rank == 4) && is_made_as_image(call.self().value());
  return dim && (*dim == rank - 1 || over_channels) ? kTaken
                                                    : "only along the last dimension, or the channels of an image";
}

std::string constant_matrix(const ir::Argument& factor, const char* what) {
  if (!is_constant(factor)) {
    return std::string(what) + " is not constant";
  }
  return type_of(factor)->rank() == 2 ? kTaken : std::string(what) + " is no matrix";
}

constexpr const char* kNoPlainBias = "its bias is no constant vector with a number for each column";

/// A vector as long as the result's rows; eager broadcasts others.
bool is_plain_bias(const Question& q, const ir::Argument& bias) {
  const ir::TensorType* type = type_of(bias);
  return type != nullptr && type->rank() == 1 && type->dims[0].max == q.result_type().dims.back().max;
}

std::string linear(const Question& q) {
  const ops::Linear call(q.node);
  if (type_of(call.input())->rank() == 0) {
    return "a scalar";
  }
  if (!call.bias().is_none() && !is_plain_bias(q, call.bias())) {
    return kNoPlainBias;
  }
  if (is_quantized_weight(call.weight().value())) {
    return quantized_product_refusal(q);
  }
  if (!call.bias().is_none() && !is_constant(call.bias())) {
    return "its bias is not constant";
  }
  return constant_matrix(call.weight(), "its weight");
}

std::string addmm(const Question& q) {
  const ops::Addmm call(q.node);
  if (number_of(call.beta()) != 1 || number_of(call.alpha()) != 1) {
    return "a factor alpha or beta";
  }
  if (!is_constant(call.self()) || !is_plain_bias(q, call.self())) {
    return kNoPlainBias;
  }
  return constant_matrix(call.mat2(), "its second factor");
}

std::string matmul(const Question& q) {
  return is_constant(ops::Mm(q.node).self()) ? "its first factor is constant" : kTaken;
}

std::string batch_norm(const Question& q) {
  const ops::NativeBatchNormLegitNoTraining_ call(q.node);
  for (const ir::Argument* one : {&call.weight(), &call.bias(), &call.running_mean(), &call.running_var()}) {
    if (!one->is_none() && !is_constant(*one)) {
      return "statistics that are not constant";
    }
  }
  for (size_t i = 1; i < q.node.results().size(); ++i) {
    if (q.node.graph()->is_output(q.node.result(i)) || !q.node.result(i)->users().empty()) {
      return "its statistics are used";
    }
  }
  const size_t rank = type_of(call.input())->rank();
  return rank >= 2 && rank <= 4 ? kTaken : "only ranks 2 to 4";
}

std::string concatenate(const Question& q) {
  const ops::Cat call(q.node);
  const auto* list = call.tensors().as<ir::Argument::List>();
  if (list == nullptr || list->size() < 2) {
    return "less than two tensors";
  }
  const auto dim = dim_of(call.dim(), q.result_type().rank());
  for (const ir::Argument& item : *list) {
    if (item.value() == nullptr || item.value()->type.tensor.dtype != q.result_type().dtype ||
        item.value()->type.tensor.rank() != q.result_type().rank()) {
      return "tensors of different types or ranks";
    }
    if (is_foldable(item.value())) {
      return "a constant among the tensors";
    }
    if (dim && item.value()->type.tensor.dims[*dim].min == 0) {
      return "a tensor that may have no elements";  // the library would have to join it with others that do
    }
  }
  return dim ? kTaken : "a dimension that is computed at run time";
}

std::string permute(const Question& q) {
  const ops::PermuteCopy call(q.node);
  return type_of(call.self())->rank() >= 1 && ints_of(call.dims()) ? kTaken : "a scalar";
}

std::string view(const Question& q) {
  return num_dynamic(q.result_type()) <= 1 ? kTaken : "a shape with more than one dynamic dimension";
}

std::string slice(const Question& q) {
  const ops::SliceCopyTensor call(q.node);
  const ir::TensorType& in = *type_of(call.self());
  const auto dim = dim_of(call.dim(), in.rank());
  const auto step = int_of(call.step());
  if (!dim || !step || *step != 1) {
    return "a step other than 1";
  }
  if (!in.dims[*dim].is_static() || !q.result_type().dims[*dim].is_static()) {
    return "a part of a dynamic dimension";
  }
  if (!int_of(call.start()) && !call.start().is_none()) {
    return "a start that is computed at run time";
  }
  return kTaken;
}

std::string select(const Question& q) {
  const ops::SelectCopyInt call(q.node);
  const ir::TensorType& in = *type_of(call.self());
  const auto dim = dim_of(call.dim(), in.rank());
  if (!dim || !int_of(call.index()) || !in.dims[*dim].is_static()) {
    return "an index that is computed at run time, or a dynamic dimension";
  }
  return view(q);
}

std::string split(const Question& q) {
  const ops::SplitCopyTensor call(q.node);
  const ir::TensorType& in = *type_of(call.self());
  const auto dim = dim_of(call.dim(), in.rank());
  if (!dim || !in.dims[*dim].is_static()) {
    return "a dynamic dimension";
  }
  for (const auto& part : q.node.results()) {
    const ir::Dim& size = part->type.tensor.dims[*dim];
    if (!size.is_static()) {
      return "a part whose size is computed at run time";
    }
    if (size.max == 0) {
      return "a part without elements";
    }
  }
  return kTaken;
}

std::string pad(const Question& q) {
  const ops::ConstantPadNd call(q.node);
  const auto list = ints_of(call.pad());
  const auto value = number_of(call.value());
  if (!list || !value || !std::isfinite(*value)) {
    return "paddings that are computed at run time";
  }
  return std::all_of(list->begin(), list->end(), [](int64_t p) { return p >= 0 && p <= 1 << 15; })
             ? kTaken
             : "a negative padding";
}

constexpr OperatorRow kOperators[] = {
    {op::convolution, "Conv2d, DepthwiseConv2d, ConvTranspose2d", true, &convolution, &emit_convolution},
    {op::linear, "FullyConnected", true, &linear, &emit_linear},
    {op::addmm, "FullyConnected", true, &addmm, &emit_addmm},
    {op::mm, "FullyConnected or BatchMatrixMultiply", true, &matmul, &emit_matmul},
    {op::bmm, "BatchMatrixMultiply", true, &matmul, &emit_matmul},
    {op::_native_batch_norm_legit_no_training, "part of the convolution, or Multiply and Add", false, &batch_norm,
     &emit_batch_norm},
    {op::add_Tensor, "Add", false, &add_or_sub, &emit_binary},
    {op::add_Scalar, "Add", false, &add_or_sub, &emit_binary},
    {op::sub_Tensor, "Subtract", false, &add_or_sub, &emit_binary},
    {op::sub_Scalar, "Subtract", false, &add_or_sub, &emit_binary},
    {op::rsub_Scalar, "Subtract", false, &reversed_sub, &emit_binary},
    {op::mul_Tensor, "Multiply", false, &binary, &emit_binary},
    {op::mul_Scalar, "Multiply", false, &binary, &emit_binary},
    {op::div_Tensor, "Div", false, &binary, &emit_binary},
    {op::div_Scalar, "Div", false, &binary, &emit_binary},
    {op::reciprocal, "Div", false, &elementwise, &emit_reciprocal},
    {op::maximum, "Maximum", false, &binary, &emit_binary},
    {op::minimum, "Minimum", false, &binary, &emit_binary},
    {op::_prelu_kernel, "PReLU", false, &prelu, &emit_prelu},
    {op::relu, "Clamp, or part of the node before", false, &elementwise, &emit_clamp},
    {op::hardtanh, "Clamp, or part of the node before", false, &clamp, &emit_clamp},
    {op::clamp, "Clamp, or part of the node before", false, &clamp, &emit_clamp},
    {op::sigmoid, "Sigmoid", false, &elementwise, &emit_unary},
    {op::tanh, "Tanh", false, &elementwise, &emit_unary},
    {op::exp, "Exp", false, &elementwise, &emit_unary},
    {op::log, "Log", false, &elementwise, &emit_unary},
    {op::sin, "Sin", false, &elementwise, &emit_unary},
    {op::cos, "Cos", false, &elementwise, &emit_unary},
    {op::abs, "Abs", false, &elementwise, &emit_unary},
    {op::neg, "Negate", false, &elementwise, &emit_unary},
    {op::ceil, "Ceiling", false, &elementwise, &emit_unary},
    {op::floor, "Floor", false, &elementwise, &emit_unary},
    {op::sqrt, "SquareRoot", false, &elementwise, &emit_unary},
    {op::rsqrt, "ReciprocalSquareRoot", false, &elementwise, &emit_unary},
    {op::square, "Square", false, &elementwise, &emit_unary},
    {op::pow_Tensor_Scalar, "Square, SquareRoot or ReciprocalSquareRoot", false, &power, &emit_unary},
    {op::gelu, "Gelu", false, &gelu, &emit_unary},
    {op::hardswish, "Hardswish", false, &elementwise, &emit_unary},
    {op::hardsigmoid, "Add with a clamp, Multiply", false, &elementwise, &emit_hardsigmoid},
    {op::silu, "Sigmoid, Multiply", false, &elementwise, &emit_silu},
    {op::elu, "ELU", false, &elu, &emit_elu},
    {op::leaky_relu, "LeakyReLU", false, &leaky_relu, &emit_leaky_relu},
    {op::_softmax, "Softmax", false, &softmax, &emit_softmax},
    {op::max_pool2d, "MaxPooling2d", true, &max_pool, &emit_max_pool},
    {op::max_pool2d_with_indices, "MaxPooling2d", true, &max_pool, &emit_max_pool},
    {op::avg_pool2d, "AvgPooling2d", true, &avg_pool, &emit_avg_pool},
    {op::mean_dim, "GlobalAvgPooling2d", true, &mean, &emit_mean},
    {op::upsample_bilinear2d_vec, "StaticResizeBilinear2D", true, &resize, &emit_resize},
    {op::upsample_nearest2d_vec, "Concatenate2 … 5", false, &nearest, &emit_nearest},
    {op::cat, "Concatenate2 … 5", false, &concatenate, &emit_concatenate},
    {op::permute_copy, "StaticTranspose, or another name", false, &permute, &emit_permute},
    {op::view_copy, "StaticReshape", false, &view, &emit_view},
    {op::unsqueeze_copy, "StaticReshape", false, &view, &emit_view},
    {op::squeeze_copy_dim, "StaticReshape", false, &view, &emit_view},
    {op::squeeze_copy_dims, "StaticReshape", false, &view, &emit_view},
    {op::slice_copy_Tensor, "StaticSlice", false, &slice, &emit_slice},
    {op::select_copy_int, "StaticSlice, StaticReshape", false, &select, &emit_select},
    {op::split_Tensor, "StaticSlice for each part", false, &split, &emit_split},
    {op::split_copy_Tensor, "StaticSlice for each part", false, &split, &emit_split},
    {op::split_with_sizes_copy, "StaticSlice for each part", false, &split, &emit_split},
    {op::constant_pad_nd, "StaticConstantPad", false, &pad, &emit_pad},
};

std::string type_refusal(const ir::TensorType& type, const Options& options, bool is_result) {
  if (type.rank() > kMaxRank) {
    return "a tensor of rank " + std::to_string(type.rank()) + ", the library has 6";
  }
  if (!type.is_bounded()) {
    return "a size that only the data decides";
  }
  for (const ir::Dim& dim : type.dims) {
    if (dim.max == 0 || dim.max > 1 << 30) {
      return "a tensor without elements, or too large";
    }
  }
  if (is_result && !is_float(type)) {
    return std::string("a result of type ") + to_string(type.dtype);
  }
  if (type.dtype == ScalarType::Float && !options.fp32) {
    return "float32, which the partitioner was told to leave";
  }
  if (type.dtype == ScalarType::Half && !options.fp16) {
    return "float16, which the partitioner was told to leave";
  }
  return is_float(type) ? kTaken : std::string("a tensor of type ") + to_string(type.dtype);
}

}  // namespace

const ir::TensorType* type_of(const ir::Argument& argument) {
  const ir::Value* value = argument.value();
  return value != nullptr && value->type.is_tensor() ? &value->type.tensor : nullptr;
}

bool is_constant(const ir::Argument& argument) { return is_foldable(argument.value()); }

bool is_made_as_image(const ir::Value* value) {
  constexpr size_t kMaxSteps = 32;
  for (size_t step = 0; step < kMaxSteps && value != nullptr && value->producer() != nullptr; ++step) {
    const ir::Node& node = *value->producer();
    const size_t rank = value->type.is_tensor() ? value->type.tensor.rank() : 0;
    const OperatorRow* row = find_operator(node.op);
    if (row == nullptr || (rank != 3 && rank != 4)) {
      return false;
    }
    if (row->emit == &emit_convolution || row->emit == &emit_max_pool || row->emit == &emit_avg_pool ||
        row->emit == &emit_resize || row->emit == &emit_nearest) {
      return true;
    }
    if (row->emit == &emit_permute || node.args().empty()) {
      return false;
    }
    const auto* list = node.args()[0].as<ir::Argument::List>();
    value = list == nullptr ? node.args()[0].value() : list->empty() ? nullptr : list->front().value();
  }
  return false;
}

bool is_foldable(const ir::Value* value) {
  if (value == nullptr || value->producer() == nullptr || !value->type.is_tensor() || !value->type.tensor.is_static()) {
    return false;
  }
  const ir::Node& node = *value->producer();
  if (node.op == "constant") {
    return true;
  }
  // What fold-constants is sure to compute: no growth beyond the inputs.
  const ops::Moves moves = ops::moves_of(node.op);
  if (moves != ops::Moves::kReshape && moves != ops::Moves::kPermute && moves != ops::Moves::kPart &&
      !ops::has_tag(node.op, ops::kPointwise)) {
    return false;
  }
  bool all = true;
  int64_t input_nbytes = 0;
  node.for_each_input([&](const ir::Value* input) {
    all = all && is_foldable(input);
    input_nbytes += input->type.is_tensor() ? input->type.tensor.max_nbytes() : 0;
  });
  return all && !node.args().empty() && value->type.tensor.max_nbytes() <= input_nbytes;
}

const OperatorRow* find_operator(std::string_view op) {
  const auto* found =
      std::find_if(std::begin(kOperators), std::end(kOperators), [&](const OperatorRow& row) { return row.op == op; });
  if (found != std::end(kOperators)) {
    return found;
  }
  return find_quantization_operator(op);
}

std::string refusal_of(const ir::Node& node, const ir::Program& program, const Options& options) {
  const OperatorRow* row = find_operator(node.op);
  if (row == nullptr) {
    return "XNNPACK has no such operator, or the delegate's format cannot say it";
  }
  const Question question{node, program, options};
  if (is_quantization_operator(node.op)) {
    return row->refusal(question);
  }
  Options numbers = options;
  numbers.fp32 = numbers.fp32 || computes_on_integers(node);  // float32 is only what the graph calls them
  std::string why = type_refusal(node.result()->type.tensor, numbers, true);
  node.for_each_input([&](const ir::Value* input) {
    if (why.empty() && input->type.is_tensor()) {
      why = type_refusal(input->type.tensor, numbers, false);
    }
  });
  if (why.empty() && is_foldable(node.result())) {
    return "compile time: it depends on constants only";
  }
  why = why.empty() ? row->refusal(question) : why;
  return why.empty() ? bounds_refusal(question) : why;
}

Options read_options(const std::vector<ir::Delegate::CompileSpec>& specs) {
  Options options;
  for (const auto& spec : specs) {
    if (spec.key == "precisions") {
      const auto has = [&](const char* word) {
        return (" " + spec.value + " ").find(" " + std::string(word) + " ") != std::string::npos;
      };
      options = {has("fp32"), has("fp16"), has("static_quant"), has("dynamic_quant"), has("weight_only")};
    }
  }
  return options;
}

}  // namespace et::backends::xnnpack
