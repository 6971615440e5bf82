#include <algorithm>
#include <cmath>

#include "backends/xnnpack/compiler/emitters.h"
#include "backends/xnnpack/compiler/quantization.h"
#include "ir/op_views.h"
#include "ops/names.h"

namespace et::backends::xnnpack {
namespace {

using passes::constant_of;
using passes::number_of;
using payload::NodeUnion;

struct NodeName {
  std::string_view op;
  NodeUnion node;
};
constexpr NodeName kBinaryNodes[] = {
    {op::add_Tensor, NodeUnion::NodeUnion_Add},       {op::add_Scalar, NodeUnion::NodeUnion_Add},
    {op::sub_Tensor, NodeUnion::NodeUnion_Subtract},  {op::sub_Scalar, NodeUnion::NodeUnion_Subtract},
    {op::rsub_Scalar, NodeUnion::NodeUnion_Subtract}, {op::mul_Tensor, NodeUnion::NodeUnion_Multiply},
    {op::mul_Scalar, NodeUnion::NodeUnion_Multiply},  {op::div_Tensor, NodeUnion::NodeUnion_Div},
    {op::div_Scalar, NodeUnion::NodeUnion_Div},       {op::maximum, NodeUnion::NodeUnion_Maximum},
    {op::minimum, NodeUnion::NodeUnion_Minimum},
};
constexpr NodeName kUnaryNodes[] = {
    {op::sigmoid, NodeUnion::NodeUnion_Sigmoid},
    {op::tanh, NodeUnion::NodeUnion_Tanh},
    {op::exp, NodeUnion::NodeUnion_Exp},
    {op::log, NodeUnion::NodeUnion_Log},
    {op::sin, NodeUnion::NodeUnion_Sin},
    {op::cos, NodeUnion::NodeUnion_Cos},
    {op::abs, NodeUnion::NodeUnion_Abs},
    {op::neg, NodeUnion::NodeUnion_Negate},
    {op::ceil, NodeUnion::NodeUnion_Ceiling},
    {op::floor, NodeUnion::NodeUnion_Floor},
    {op::sqrt, NodeUnion::NodeUnion_SquareRoot},
    {op::rsqrt, NodeUnion::NodeUnion_ReciprocalSquareRoot},
    {op::square, NodeUnion::NodeUnion_Square},
    {op::gelu, NodeUnion::NodeUnion_Gelu},
    {op::hardswish, NodeUnion::NodeUnion_Hardswish},
};

template <size_t N>
NodeUnion node_named(const NodeName (&names)[N], std::string_view op) {
  const auto* found = std::find_if(std::begin(names), std::end(names), [&](const NodeName& n) { return n.op == op; });
  return found == std::end(names) ? NodeUnion::NodeUnion_NONE : found->node;
}

/// True when the node type has a clamp of its own.
bool has_clamp(NodeUnion type) {
  return type == NodeUnion::NodeUnion_Add || type == NodeUnion::NodeUnion_Subtract ||
         type == NodeUnion::NodeUnion_Multiply || type == NodeUnion::NodeUnion_Div;
}

/// The form in which an elementwise operator works: image when an operand lies so and all others can follow.
Form common_form(const Lowering& lowering, const ir::Node& node) {
  const size_t rank = node.result()->type.tensor.rank();
  bool image = false;
  bool fits = rank == 3 || rank == 4;
  node.for_each_input([&](const ir::Value* input) {
    if (constant_of(lowering.program(), input) == nullptr) {
      fits = fits && input->type.tensor.rank() == rank;
      image = image || lowering.form_of(input) == Form::kImage;
    }
  });
  return fits && image ? Form::kImage : Form::kRowMajor;
}

uint32_t operand(Lowering& lowering, const ir::Node& node, size_t i, Form form) {
  const ir::TensorType& result = node.result()->type.tensor;
  const ir::Value* value = node.args()[i].value();
  if (value == nullptr) {
    return lowering.scalar(result, *number_of(node.args()[i]));
  }
  return constant_of(lowering.program(), value) != nullptr ? lowering.operand_constant(value, form, result.rank())
                                                           : lowering.id_of(value, form);
}

/// A unary node whose table has only ids.
Error emit_simple(Lowering& lowering, const ir::Node& node, NodeUnion type) {
  if (const auto between = integers_around(lowering, node)) {
    lowering.writer.add_unary(type, between->input, between->output, node.debug_handle);
    return Error::Ok;
  }
  const Form form = common_form(lowering, node);
  const uint32_t input = lowering.id_of(node.args()[0].value(), form);
  lowering.writer.add_unary(type, input, lowering.define(node.result(), form), node.debug_handle);
  return Error::Ok;
}

std::vector<double> numbers_of(const Lowering& lowering, const ir::Argument& argument, size_t count, double otherwise) {
  const ir::Constant* constant = constant_of(lowering.program(), argument);
  std::vector<double> out(count, otherwise);
  for (size_t i = 0; constant != nullptr && i < count; ++i) {
    out[i] = constant->type.dtype == ScalarType::Half
                 ? static_cast<double>(static_cast<float>(static_cast<const Half*>(constant->data)[i]))
                 : static_cast<double>(static_cast<const float*>(constant->data)[i]);
  }
  return out;
}

/// A constant with a number for each channel, made from `source`, laid out to be broadcast against `type` in `form`.
uint32_t channel_constant(Lowering& lowering, const ir::TensorType& type, Form form, const std::vector<double>& values,
                          const ir::Argument& source) {
  ValueSpec spec;
  spec.external_file = passes::external_file_of(lowering.program(), source.value());
  spec.datatype = Lowering::datatype_of(type.dtype);
  spec.dims.assign(form == Form::kImage ? 1 : type.rank() - 1, 1);
  spec.dims[0] = static_cast<uint32_t>(values.size());
  std::string bytes;
  for (const double value : values) {
    const auto number = static_cast<float>(value);
    const Half half(number);
    if (type.dtype == ScalarType::Half) {
      bytes.append(reinterpret_cast<const char*>(&half), sizeof(half));
    } else {
      bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
    }
  }
  return lowering.writer.add_constant(spec, std::move(bytes));
}

/// Lets `write` make a result whose channels stand innermost from such a source, both of the row-major form. The form
/// is [N, C, L], which needs no reshape on the way (its sizes may all be dynamic), or [N, C, H, W].
template <typename Write>
Error with_channels_innermost(Lowering& lowering, const ir::Node& node, const Write& write) {
  const ir::Value* source = node.args()[0].value();
  ValueSpec turned = lowering.spec_of(source, Form::kRowMajor);
  std::rotate(turned.dims.begin() + 1, turned.dims.begin() + 2, turned.dims.end());
  const uint32_t from = lowering.define_hidden(turned), to = lowering.define_hidden(turned);
  const bool is_line = turned.dims.size() == 3;
  lowering.transpose(lowering.id_of(source, Form::kRowMajor), from,
                     is_line ? std::vector<uint32_t>{0, 2, 1} : std::vector<uint32_t>{0, 2, 3, 1}, node.debug_handle);
  write(from, to);
  lowering.transpose(to, lowering.define(node.result(), Form::kRowMajor),
                     is_line ? std::vector<uint32_t>{0, 2, 1} : std::vector<uint32_t>{0, 3, 1, 2}, node.debug_handle);
  return Error::Ok;
}

}  // namespace

Error emit_binary(Lowering& lowering, const ir::Node& node) {
  const NodeUnion type = node_named(kBinaryNodes, node.op);
  if (type == NodeUnion::NodeUnion_NONE) {
    return lowering.refuse(node, "has no such binary operator");
  }
  if (emit_quantized_binary(lowering, node, type)) {
    return Error::Ok;
  }
  const Form form = common_form(lowering, node);
  const bool reversed = node.op == op::rsub_Scalar;
  const uint32_t a = operand(lowering, node, reversed ? 1 : 0, form);
  const uint32_t b = operand(lowering, node, reversed ? 0 : 1, form);
  const Lowering::Tail tail =
      has_clamp(type) ? lowering.take_clamps(node) : Lowering::Tail{node.result(), std::nullopt};
  lowering.writer.add_binary(type, a, b, lowering.define(tail.result, form), node.debug_handle, tail.range());
  return Error::Ok;
}

Error emit_batch_norm(Lowering& lowering, const ir::Node& node) {
  const ops::NativeBatchNormLegitNoTraining_ call(node);
  const ir::TensorType& type = node.result()->type.tensor;
  const auto channels = static_cast<size_t>(type.dims[1].max);
  const std::vector<double> gamma = numbers_of(lowering, call.weight(), channels, 1);
  const std::vector<double> beta = numbers_of(lowering, call.bias(), channels, 0);
  const std::vector<double> mean = numbers_of(lowering, call.running_mean(), channels, 0);
  const std::vector<double> variance = numbers_of(lowering, call.running_var(), channels, 1);
  const double eps = number_of(call.eps()).value_or(1e-5);
  std::vector<double> scale(channels), shift(channels);
  for (size_t c = 0; c < channels; ++c) {
    scale[c] = gamma[c] / std::sqrt(variance[c] + eps);
    shift[c] = beta[c] - mean[c] * scale[c];
  }
  const ir::Value* source = call.input().value();
  const bool is_image = (type.rank() == 3 || type.rank() == 4) && lowering.form_of(source) == Form::kImage;
  const Form form = is_image ? Form::kImage : Form::kRowMajor;
  const uint32_t input = lowering.id_of(source, form);
  const uint32_t product = lowering.define_hidden(Lowering::datatype_of(type.dtype), Lowering::dims_of(type, form));
  lowering.writer.add_binary(NodeUnion::NodeUnion_Multiply, input,
                             channel_constant(lowering, type, form, scale, call.running_mean()), product,
                             node.debug_handle);
  const uint32_t addend = channel_constant(lowering, type, form, shift, call.running_mean());
  const Lowering::Tail tail = lowering.take_clamps(node);
  lowering.writer.add_binary(NodeUnion::NodeUnion_Add, product, addend, lowering.define(tail.result, form),
                             node.debug_handle, tail.range());
  return Error::Ok;
}

Error emit_prelu(Lowering& lowering, const ir::Node& node) {
  const ops::PreluKernel_ call(node);
  const ir::TensorType& type = node.result()->type.tensor;
  const ir::Value* source = call.self().value();
  const ir::Constant& slopes = *constant_of(lowering.program(), call.weight());
  const auto count = static_cast<size_t>(slopes.type.numel());
  const uint32_t slope =
      channel_constant(lowering, type, Form::kImage, numbers_of(lowering, call.weight(), count, 0), call.weight());
  if (type.rank() == 3 && lowering.form_of(source) == Form::kRowMajor) {
    const auto write = [&](uint32_t from, uint32_t to) {
      lowering.writer.add_binary(NodeUnion::NodeUnion_PReLU, from, slope, to, node.debug_handle);
    };
    return with_channels_innermost(lowering, node, write);
  }
  const Form form = type.rank() == 2 ? Form::kRowMajor : Form::kImage;  // the channel stands innermost
  const uint32_t input = lowering.id_of(source, form);
  lowering.writer.add_binary(NodeUnion::NodeUnion_PReLU, input, slope, lowering.define(node.result(), form),
                             node.debug_handle);
  return Error::Ok;
}

Error emit_clamp(Lowering& lowering, const ir::Node& node) {
  if (emit_quantized_clamp(lowering, node)) {
    return Error::Ok;
  }
  const Form form = common_form(lowering, node);
  const Clamp range = in_floats(*passes::clamp_of(node));
  const uint32_t input = lowering.id_of(node.args()[0].value(), form);
  lowering.writer.add_unary(NodeUnion::NodeUnion_Clamp, input, lowering.define(node.result(), form), node.debug_handle,
                            &range);
  return Error::Ok;
}

Error emit_unary(Lowering& lowering, const ir::Node& node) {
  NodeUnion type = node_named(kUnaryNodes, node.op);
  if (node.op == op::pow_Tensor_Scalar) {
    const double exponent = *number_of(ops::PowTensorScalar(node).exponent());
    type = exponent == 2     ? NodeUnion::NodeUnion_Square
           : exponent == 0.5 ? NodeUnion::NodeUnion_SquareRoot
                             : NodeUnion::NodeUnion_ReciprocalSquareRoot;
  }
  return type == NodeUnion::NodeUnion_NONE ? lowering.refuse(node, "has no such unary operator")
                                           : emit_simple(lowering, node, type);
}

// clamp(x + 3, 0, 6) / 6
Error emit_hardsigmoid(Lowering& lowering, const ir::Node& node) {
  const ir::TensorType& type = node.result()->type.tensor;
  const Form form = common_form(lowering, node);
  const uint32_t input = lowering.id_of(node.args()[0].value(), form);
  const uint32_t sum = lowering.define_hidden(Lowering::datatype_of(type.dtype), Lowering::dims_of(type, form));
  const Clamp range{0, 6};
  lowering.writer.add_binary(NodeUnion::NodeUnion_Add, input, lowering.scalar(type, 3), sum, node.debug_handle, &range);
  const uint32_t sixth = lowering.scalar(type, 1.0 / 6);
  lowering.writer.add_binary(NodeUnion::NodeUnion_Multiply, sum, sixth, lowering.define(node.result(), form),
                             node.debug_handle);
  return Error::Ok;
}

// x * sigmoid(x)
Error emit_silu(Lowering& lowering, const ir::Node& node) {
  const ir::TensorType& type = node.result()->type.tensor;
  const Form form = common_form(lowering, node);
  const uint32_t input = lowering.id_of(node.args()[0].value(), form);
  const uint32_t gate = lowering.define_hidden(Lowering::datatype_of(type.dtype), Lowering::dims_of(type, form));
  lowering.writer.add_unary(NodeUnion::NodeUnion_Sigmoid, input, gate, node.debug_handle);
  lowering.writer.add_binary(NodeUnion::NodeUnion_Multiply, input, gate, lowering.define(node.result(), form),
                             node.debug_handle);
  return Error::Ok;
}

Error emit_elu(Lowering& lowering, const ir::Node& node) {
  const ops::Elu call(node);
  const auto alpha = static_cast<float>(*number_of(call.alpha()));
  const auto between = integers_around(lowering, node);
  const Form form = common_form(lowering, node);
  const uint32_t input = between ? between->input : lowering.id_of(call.self().value(), form);
  const uint32_t output = between ? between->output : lowering.define(node.result(), form);
  lowering.writer.add_node(NodeUnion::NodeUnion_ELU, payload::CreateElu(lowering.writer.builder, alpha, input, output),
                           node.debug_handle);
  return Error::Ok;
}

// In floats, also between integers: the library's own node for integers has a slope of 8 bits.
Error emit_leaky_relu(Lowering& lowering, const ir::Node& node) {
  const ops::LeakyRelu call(node);
  const Form form = common_form(lowering, node);
  const uint32_t input = lowering.id_of(call.self().value(), form);
  const uint32_t output = lowering.define(node.result(), form);
  const auto slope = static_cast<float>(*number_of(call.negative_slope()));
  lowering.writer.add_node(NodeUnion::NodeUnion_LeakyReLU,
                           payload::CreateLeakyRelu(lowering.writer.builder, slope, input, output), node.debug_handle);
  return Error::Ok;
}

Error emit_softmax(Lowering& lowering, const ir::Node& node) {
  const ops::Softmax_ call(node);
  const ir::Value* source = call.self().value();
  const auto rank = static_cast<int64_t>(source->type.tensor.rank());
  const int64_t dim = passes::int_of(call.dim()).value_or(-1);
  const bool over_channels = dim != -1 && dim != rank - 1;
  const auto write = [&](uint32_t from, uint32_t to) {
    lowering.writer.add_unary(NodeUnion::NodeUnion_Softmax, from, to, node.debug_handle);
  };
  if (over_channels && lowering.form_of(source) == Form::kRowMajor) {
    return with_channels_innermost(lowering, node, write);
  }
  const Form form = over_channels ? Form::kImage : Form::kRowMajor;
  const uint32_t input = lowering.id_of(source, form);
  write(input, lowering.define(node.result(), form));
  return Error::Ok;
}

// 1 / x
Error emit_reciprocal(Lowering& lowering, const ir::Node& node) {
  const Form form = common_form(lowering, node);
  const uint32_t one = lowering.scalar(node.result()->type.tensor, 1);
  const uint32_t input = lowering.id_of(node.args()[0].value(), form);
  const Lowering::Tail tail = lowering.take_clamps(node);
  lowering.writer.add_binary(NodeUnion::NodeUnion_Div, one, input, lowering.define(tail.result, form),
                             node.debug_handle, tail.range());
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
