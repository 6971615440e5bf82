#include "backends/xnnpack/compiler/quantization.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/xnnpack/compiler/emitters.h"
#include "base/half.h"
#include "ir/op_views.h"
#include "numerics/nibbles.h"
#include "ops/names.h"
#include "passes/quantized_values.h"

namespace et::backends::xnnpack {
namespace {

using passes::constant_of;
using passes::int_of;
using passes::is_one_of;
using passes::is_scale;
using passes::number_of;
using passes::numbers_of;
using payload::NodeUnion;

constexpr const char* kWeight = "compile time: a weight that goes along with the operators that use it";

constexpr std::string_view kQuantize = op::quantized_decomposed_quantize_per_tensor;
constexpr std::string_view kDequantize = op::quantized_decomposed_dequantize_per_tensor;
constexpr std::string_view kQuantizeTensor = op::quantized_decomposed_quantize_per_tensor_tensor;
constexpr std::string_view kDequantizeTensor = op::quantized_decomposed_dequantize_per_tensor_tensor;
constexpr std::string_view kQuantizeToken = op::quantized_decomposed_quantize_per_token;
constexpr std::string_view kDequantizeToken = op::quantized_decomposed_dequantize_per_token;
constexpr std::string_view kDequantizeChannel = op::quantized_decomposed_dequantize_per_channel;
constexpr std::string_view kDequantizeGroup = op::quantized_decomposed_dequantize_per_channel_group;
constexpr std::string_view kChoose = op::quantized_decomposed_choose_qparams_tensor;
constexpr std::string_view kChooseSymmetric = op::quantized_decomposed_choose_qparams_symmetric_tensor;
constexpr std::string_view kChooseToken = op::quantized_decomposed_choose_qparams_per_token_asymmetric;

const ir::Node* producer(const ir::Value* value) { return value == nullptr ? nullptr : value->producer(); }

std::string dequantize_refusal(const Question& q) {
  if (is_quantized_weight(q.node.result())) {
    return kWeight;
  }
  return static_refusal(q);
}

std::string weight_refusal(const Question& q) {
  return is_quantized_weight(q.node.result()) ? kWeight : "integers with a scale a channel that are no constant";
}

std::string dynamic_refusal(const Question& q) {
  if (!q.options.dynamic_quant) {
    return "dynamic quantization, which the partitioner was told to leave";
  }
  for (const auto& result : q.node.results()) {
    if (!feeds_products_only(result.get(), q)) {
      return "parameters computed at run time for something that is no product with an integer weight";
    }
  }
  return "";
}

/// Nodes that the emitters of their users have written already, or that write nothing by themselves.
Error emit_nothing(Lowering&, const ir::Node&) { return Error::Ok; }

/// Of a quantize or dequantize with a scale that is known before.
AffineParameters parameters_of(const ir::Node& node) {
  const ops::QuantizedDecomposedQuantizePerTensor call(node);
  return {static_cast<float>(*number_of(call.scale())), static_cast<int32_t>(*int_of(call.zero_point()))};
}

Error emit_quantize(Lowering& lowering, const ir::Node& node) {
  const ir::Value* from = node.args()[0].value();
  lowering.set_parameters(node.result(), parameters_of(node));
  const Form form = lowering.form_of(from);
  const uint32_t input = lowering.id_of(from, form);
  lowering.writer.add_unary(NodeUnion::NodeUnion_Convert, input, lowering.define(node.result(), form),
                            node.debug_handle);
  return Error::Ok;
}

// The float form is made when a reader wants it: Lowering::id_of.
Error emit_dequantize(Lowering& lowering, const ir::Node& node) {
  const ir::Value* integers = node.args()[0].value();
  if (lowering.parameters(integers) == nullptr) {
    lowering.set_parameters(integers, parameters_of(node));
  }
  return Error::Ok;
}

constexpr OperatorRow kRows[] = {
    {kQuantize, "Convert, or part of the operator before", false, &static_refusal, &emit_quantize},
    {kDequantize, "Convert, or part of the operator behind", false, &dequantize_refusal, &emit_dequantize},
    {kDequantizeChannel, "part of the product", false, &weight_refusal, &emit_nothing},
    {kDequantizeGroup, "part of the product", false, &weight_refusal, &emit_nothing},
    {kChoose, "part of Convert", false, &dynamic_refusal, &emit_nothing},
    {kChooseSymmetric, "part of Convert", false, &dynamic_refusal, &emit_nothing},
    {kChooseToken, "part of Convert", false, &dynamic_refusal, &emit_nothing},
    {kQuantizeTensor, "Convert", false, &dynamic_refusal, &emit_nothing},
    {kQuantizeToken, "Convert", false, &dynamic_refusal, &emit_nothing},
    {kDequantizeTensor, "part of the product", false, &dynamic_refusal, &emit_nothing},
    {kDequantizeToken, "part of the product", false, &dynamic_refusal, &emit_nothing},
};

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::string packed_nibbles(const std::string& integers) {
  std::string out(packed_count(integers.size()), '\0');
  pack_nibbles(reinterpret_cast<const int8_t*>(integers.data()), integers.size(),
               reinterpret_cast<uint8_t*>(out.data()));
  return out;
}

}  // namespace

bool is_quantization_operator(std::string_view op) { return find_quantization_operator(op) != nullptr; }

const OperatorRow* find_quantization_operator(std::string_view op) {
  const auto* found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const OperatorRow& row) { return row.op == op; });
  return found == std::end(kRows) ? nullptr : found;
}

std::string static_refusal(const Question& q) {
  const ops::QuantizedDecomposedQuantizePerTensor call(q.node);
  if (!q.options.static_quant) {
    return "static quantization, which the partitioner was told to leave";
  }
  const auto scale = number_of(call.scale());
  const auto low = int_of(call.quant_min()), high = int_of(call.quant_max());
  if (!scale || !int_of(call.zero_point()) || !low || !high) {
    return "a scale that is computed at run time";
  }
  const ScalarType dtype = q.node.op == kQuantize ? q.result_type().dtype : type_of(call.input())->dtype;
  if (dtype != ScalarType::Char || *low != -128 || *high != 127) {
    return "only int8 with its whole range";
  }
  const ScalarType real = q.node.op == kQuantize ? type_of(call.input())->dtype : q.result_type().dtype;
  if (real != ScalarType::Float || q.result_type().rank() > 6 || !q.result_type().is_bounded()) {
    return "numbers that are not float32";
  }
  return is_scale(*scale) ? "" : "a scale that is zero or no number";
}

bool is_quantized_weight(const ir::Value* value) {
  const ir::Node* node = producer(value);
  return node != nullptr && is_one_of(node->op, {kDequantize, kDequantizeChannel, kDequantizeGroup}) &&
         is_foldable(node->args()[0].value());
}

std::optional<IntegerWeight> read_weight(const ir::Program& program, const ir::Value* value) {
  const ir::Node& node = *value->producer();
  const ir::Constant* integers = constant_of(program, node.args()[0]);
  std::optional<passes::Weight> weight = passes::read_weight(program, node);
  if (!weight || !weight->is_symmetric() || integers->type.dtype != ScalarType::Char) {
    return std::nullopt;
  }
  IntegerWeight out;
  out.values = std::move(weight->values);
  for (const ir::Dim& dim : weight->type.dims) {
    out.spec.dims.push_back(static_cast<uint32_t>(dim.max));
  }
  if (node.op == kDequantize) {
    out.spec.datatype = payload::Datatype_qint8;
    out.scales = {number_of(ops::QuantizedDecomposedDequantizePerTensor(node).scale()).value_or(weight->scales[0])};
    out.spec.quant.scale = weight->scales[0];
    return out;
  }
  const bool by_group = node.op == kDequantizeGroup;
  const ops::QuantizedDecomposedDequantizePerChannel by_channel(node);
  const ops::QuantizedDecomposedDequantizePerChannelGroup in_groups(node);
  const int64_t low = int_of(by_group ? in_groups.quant_min() : by_channel.quant_min()).value_or(-128);
  const int64_t high = int_of(by_group ? in_groups.quant_max() : by_channel.quant_max()).value_or(127);
  const bool is_4_bit = low >= -8 && high <= 7;
  out.scales.assign(weight->scales.begin(), weight->scales.end());
  if (by_group) {
    if (!is_4_bit || weight->group_size % 32 != 0) {
      return std::nullopt;
    }
    out.spec.datatype = payload::Datatype_qbint4;
    out.spec.quant.group_size = static_cast<int32_t>(weight->group_size);
    for (const float scale : weight->scales) {
      const BFloat16 narrow(scale);
      if (!std::isnormal(static_cast<float>(narrow))) {
        return std::nullopt;
      }
      out.spec.quant.group_scales.push_back(narrow.bits);
    }
    return out;
  }
  out.axis = *weight->axis;
  out.spec.datatype = is_4_bit ? payload::Datatype_qcint4 : payload::Datatype_qcint8;
  out.spec.quant.channel_scales = std::move(weight->scales);
  return out;
}

InputKind input_kind(const ir::Value* value) {
  const ir::Node* node = producer(value);
  if (node == nullptr) {
    return InputKind::kFloat;
  }
  if (node->op == kDequantize && !is_quantized_weight(value)) {
    return InputKind::kStatic;
  }
  const bool dynamic = node->op == kDequantizeTensor || node->op == kDequantizeToken;
  return dynamic && dynamic_source(value) != nullptr ? InputKind::kDynamic : InputKind::kFloat;
}

const ir::Value* dynamic_source(const ir::Value* value) {
  const ir::Node* quantize = producer(value->producer()->args()[0].value());
  if (quantize == nullptr || (quantize->op != kQuantizeTensor && quantize->op != kQuantizeToken)) {
    return nullptr;
  }
  const ir::Node* choose = producer(ops::QuantizedDecomposedQuantizePerTensorTensor(*quantize).scale().value());
  const bool chosen = choose != nullptr && is_one_of(choose->op, {kChoose, kChooseSymmetric, kChooseToken}) &&
                      choose->args()[0].value() == quantize->args()[0].value();
  return chosen ? quantize->args()[0].value() : nullptr;
}

bool fits_scaled(double bias, double scale) {
  return !std::isfinite(bias) || std::isfinite(static_cast<float>(bias / scale));
}

std::optional<std::vector<double>> bias_of_product(const ir::Program& program, const ir::Argument& bias) {
  if (!is_quantized_weight(bias.value())) {
    const ir::Constant* constant = constant_of(program, bias);
    return constant == nullptr ? std::vector<double>() : numbers_of(*constant);
  }
  return passes::bias_of(program, bias);
}

Error product_values(Lowering& lowering, const ir::Node& node, const ir::Argument& input, const ir::Argument& weight,
                     const ir::Argument& bias, const std::vector<uint32_t>& weight_dims,
                     const std::vector<size_t>& filter_perm, size_t channel_dim, Form form, ProductValues& out) {
  const ir::Program& program = lowering.program();
  ValueSpec filter;
  std::vector<double> channel_scales;
  std::string filter_bytes;
  std::vector<float> floats;
  ir::Constant shaped;
  shaped.type = ir::TensorType::contiguous(ScalarType::Float, {});
  for (const uint32_t dim : weight_dims) {
    shaped.type.dims.push_back(ir::Dim(dim));
  }
  std::optional<IntegerWeight> integer;
  if (is_quantized_weight(weight.value())) {
    integer = read_weight(program, weight.value());
    if (!integer) {
      return lowering.refuse(node, "cannot read its integer weight");
    }
    filter = integer->spec;
    channel_scales = integer->scales;
    shaped.type.dtype = ScalarType::Char;
    shaped.data = integer->values.data();
  } else {
    const ir::Constant* constant = constant_of(program, weight);
    if (constant == nullptr) {
      return lowering.refuse(node, "needs a constant weight");
    }
    shaped.type.dtype = constant->type.dtype;
    shaped.data = constant->data;
    filter.datatype = Lowering::datatype_of(constant->type.dtype);
    if (constant->type.dtype == ScalarType::Half && node.op == op::convolution) {
      // The library converts the filters of float16 convolutions itself and wants them in float32.
      const std::vector<double> values = numbers_of(*constant);
      floats.assign(values.begin(), values.end());
      shaped.type.dtype = ScalarType::Float;
      shaped.data = floats.data();
      filter.datatype = payload::Datatype_fp32;
    }
  }
  filter.dims.clear();
  for (const size_t dim : filter_perm) {
    filter.dims.push_back(weight_dims[dim]);
  }
  if (filter.dims.size() == 5) {  // [groups, out / groups, kh, kw, in / groups]
    filter.dims[1] *= filter.dims[0];
    filter.dims.erase(filter.dims.begin());
  }
  filter.quant.channel_dim = static_cast<int32_t>(channel_dim);
  filter.external_file = passes::external_file_of(program, weight.value());
  filter_bytes = passes::permuted_bytes(shaped, filter_perm);
  if (filter.datatype == payload::Datatype_qcint4 || filter.datatype == payload::Datatype_qbint4) {
    filter_bytes = packed_nibbles(filter_bytes);
  }
  out.filter = lowering.writer.add_filter(filter, std::move(filter_bytes));

  const InputKind kind = integer ? input_kind(input.value()) : InputKind::kFloat;
  const ir::Value* source = kind == InputKind::kDynamic  ? dynamic_source(input.value())
                            : kind == InputKind::kStatic ? lowering.integers(input.value())
                                                         : input.value();
  out.input = lowering.id_of(source, form);
  if (kind == InputKind::kDynamic) {
    ValueSpec rows = lowering.spec_of(source, form);
    rows.datatype = payload::Datatype_qdint8;
    rows.quant.num_nonbatch_dims = form == Form::kImage ? 3 : 1;
    const uint32_t quantized = lowering.define_hidden(rows);
    lowering.writer.add_unary(NodeUnion::NodeUnion_Convert, out.input, quantized, node.debug_handle);
    out.input = quantized;
  }

  // The bias: float beside float results, int32 with the scale of the products beside integer ones.
  const std::optional<std::vector<double>> read_bias = bias_of_product(program, bias);
  if (!read_bias) {
    return lowering.refuse(node, "cannot read its integer bias");
  }
  std::vector<double> bias_values = *read_bias;
  if (!bias_values.empty()) {
    ValueSpec spec;
    spec.dims = {static_cast<uint32_t>(bias_values.size())};
    spec.external_file = passes::external_file_of(program, bias.value());
    if (kind == InputKind::kStatic) {
      const auto input_scale = static_cast<double>(lowering.parameters(source)->scale);
      const bool by_channel = filter.datatype == payload::Datatype_qcint8;
      spec.datatype = by_channel ? payload::Datatype_qcint32 : payload::Datatype_qint32;
      std::vector<int32_t> integers;
      for (size_t i = 0; i < bias_values.size(); ++i) {
        const double scale = input_scale * channel_scales[by_channel ? i : 0];
        const double rounded = std::nearbyint(bias_values[i] / scale);
        integers.push_back(static_cast<int32_t>(std::clamp(rounded, -2147483648.0, 2147483647.0)));
        if (by_channel) {
          spec.quant.channel_scales.push_back(static_cast<float>(scale));
        }
      }
      spec.quant.scale = static_cast<float>(input_scale * channel_scales[0]);
      out.bias = lowering.writer.add_constant(spec, bytes_of(integers));
    } else if (filter.datatype == payload::Datatype_fp16) {
      spec.datatype = payload::Datatype_fp16;
      std::vector<Half> halves;
      for (const double value : bias_values) {
        halves.emplace_back(static_cast<float>(value));
      }
      out.bias = lowering.writer.add_constant(spec, bytes_of(halves));
    } else {
      if (integer && kind == InputKind::kFloat) {  // the library scales the bias along with the sums of integers
        for (size_t i = 0; i < bias_values.size(); ++i) {
          if (!fits_scaled(bias_values[i], channel_scales[i])) {
            return lowering.refuse(node, "has a bias that is too large beside such small weights");
          }
          bias_values[i] /= channel_scales[i];
        }
      }
      const std::vector<float> floats(bias_values.begin(), bias_values.end());
      out.bias = lowering.writer.add_constant(spec, bytes_of(floats));
    }
  }

  const Lowering::Tail tail = lowering.take_clamps(node);
  out.clamp = tail.clamp;
  const ir::Value* result = tail.result;
  if (kind == InputKind::kStatic) {
    const ir::Node* quantize = lowering.quantize_behind(result);
    if (quantize == nullptr) {
      return lowering.refuse(node, "needs a quantized result");
    }
    lowering.set_parameters(quantize->result(), parameters_of(*quantize));
    lowering.skip(quantize);
    result = quantize->result();
  }
  out.output = lowering.define(result, form);
  return Error::Ok;
}

namespace {

/// Defines the integers behind a float result, whose quantize is skipped.
const ir::Value* take_quantize(Lowering& lowering, const ir::Node& quantize) {
  lowering.set_parameters(quantize.result(), parameters_of(quantize));
  lowering.skip(&quantize);
  return quantize.result();
}

bool same(const AffineParameters& a, const AffineParameters& b) {
  return a.scale == b.scale && a.zero_point == b.zero_point;
}

/// The quantize behind a node and the clamps that only feed it, without taking them.
const ir::Node* quantize_after_clamps(const Lowering& lowering, const ir::Node& node) {
  return lowering.quantize_behind(last_clamp(node).result());
}

}  // namespace

bool emit_quantized_binary(Lowering& lowering, const ir::Node& node, NodeUnion type) {
  const ops::AddTensor call(node);
  if (!is_one_of(node.op, {op::add_Tensor, op::sub_Tensor, op::mul_Tensor})) {
    return false;  // of the others the library has no fast integer kernels
  }
  const ir::Value* a = call.self().value();
  const ir::Value* b = call.other().value();
  if (lowering.dequantized(a) == nullptr || lowering.dequantized(b) == nullptr ||
      quantize_after_clamps(lowering, node) == nullptr) {
    return false;
  }
  const bool same_rank = a->type.tensor.rank() == b->type.tensor.rank();
  const bool image = same_rank && (lowering.form_of(a) == Form::kImage || lowering.form_of(b) == Form::kImage);
  const Form form = image ? Form::kImage : Form::kRowMajor;
  const uint32_t first = lowering.id_of(lowering.integers(a), form);
  const uint32_t second = lowering.id_of(lowering.integers(b), form);
  const Lowering::Tail tail = lowering.take_clamps(node);
  const ir::Value* result = take_quantize(lowering, *lowering.quantize_behind(tail.result));
  lowering.writer.add_binary(type, first, second, lowering.define(result, form), node.debug_handle, tail.range());
  return true;
}

std::optional<Between> integers_around(Lowering& lowering, const ir::Node& node) {
  const ir::Value* from = node.args()[0].value();
  const ir::Node* quantize = lowering.quantize_behind(node.result());
  if (lowering.dequantized(from) == nullptr || quantize == nullptr) {
    return std::nullopt;
  }
  const Form form = lowering.form_of(from);
  const uint32_t input = lowering.id_of(lowering.integers(from), form);
  return Between{input, lowering.define(take_quantize(lowering, *quantize), form)};
}

bool emit_quantized_clamp(Lowering& lowering, const ir::Node& node) {
  const ir::Value* from = node.args()[0].value();
  const AffineParameters* parameters = lowering.dequantized(from);
  const ir::Node* quantize = lowering.quantize_behind(node.result());
  if (parameters == nullptr || quantize == nullptr || !same(*parameters, parameters_of(*quantize))) {
    return false;
  }
  const Clamp range = in_floats(*passes::clamp_of(node));
  const Form form = lowering.form_of(from);
  const uint32_t input = lowering.id_of(lowering.integers(from), form);
  const ir::Value* result = take_quantize(lowering, *quantize);
  lowering.writer.add_unary(NodeUnion::NodeUnion_Clamp, input, lowering.define(result, form), node.debug_handle,
                            &range);
  return true;
}

bool emit_quantized_concatenate(Lowering& lowering, const ir::Node& node, const std::vector<const ir::Value*>& parts) {
  const ir::Node* quantize = lowering.quantize_behind(node.result());
  if (quantize == nullptr) {
    return false;
  }
  std::vector<const ir::Value*> integers;
  bool image = false;
  for (const ir::Value* part : parts) {
    const AffineParameters* parameters = lowering.dequantized(part);
    if (parameters == nullptr || !same(*parameters, parameters_of(*quantize))) {
      return false;
    }
    image = image || lowering.form_of(part) == Form::kImage;
    integers.push_back(lowering.integers(part));
  }
  const ir::Value* result = take_quantize(lowering, *quantize);
  const auto rank = static_cast<int64_t>(result->type.tensor.rank());
  const int64_t dim = int_of(ops::Cat(node).dim()).value_or(0);
  return concatenate_values(lowering, node, integers, result, static_cast<size_t>(dim < 0 ? dim + rank : dim),
                            image ? Form::kImage : Form::kRowMajor) == Error::Ok;
}

Movement movement_of(Lowering& lowering, const ir::Node& node, bool rescales) {
  return movement_of(lowering, node.args()[0].value(), node.result(), rescales);
}

Movement movement_of(Lowering& lowering, const ir::Value* from, const ir::Value* result, bool rescales) {
  const AffineParameters* parameters = lowering.dequantized(from);
  const ir::Node* quantize = lowering.quantize_behind(result);
  if (parameters == nullptr || quantize == nullptr || (!rescales && !same(*parameters, parameters_of(*quantize)))) {
    return {from, result};
  }
  const ir::Value* integers = lowering.integers(from);
  return {integers, take_quantize(lowering, *quantize)};
}

}  // namespace et::backends::xnnpack
