#include "passes/quantized_products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/op_views.h"
#include "ir/pattern.h"
#include "numerics/nibbles.h"
#include "ops/names.h"

namespace et::passes {
namespace {

/// How an input is quantized at run time.
struct Choice {
  ir::Pattern pattern;
  bool per_token, symmetric;
};
const Choice kChoices[] = {
    {R"(
       y = quantized_decomposed::dequantize_per_tensor.tensor(integers, scale, zero, ...)
       integers = &quantized_decomposed::quantize_per_tensor.tensor(floats, scale, zero, low, high, ...)
       scale = &quantized_decomposed::choose_qparams.tensor(floats, low, high, eps, ...)#0
       zero = &quantized_decomposed::choose_qparams.tensor(floats, low, high, eps, ...)#1
     )",
     false, false},
    {R"(
       y = quantized_decomposed::dequantize_per_tensor.tensor(integers, scale, zero, ...)
       integers = &quantized_decomposed::quantize_per_tensor.tensor(floats, scale, zero, low, high, ...)
       scale = &quantized_decomposed::choose_qparams_symmetric.tensor(floats, low, high, eps, ...)#0
       zero = &quantized_decomposed::choose_qparams_symmetric.tensor(floats, low, high, eps, ...)#1
     )",
     false, true},
    {R"(
       y = quantized_decomposed::dequantize_per_token(integers, scale, zero, ...)
       integers = &quantized_decomposed::quantize_per_token(floats, scale, zero, low, high, ...)
       scale = &quantized_decomposed::choose_qparams_per_token_asymmetric(floats, ...)#0
       zero = &quantized_decomposed::choose_qparams_per_token_asymmetric(floats, ...)#1
     )",
     true, false},
    {R"(
       y = quantized_decomposed::dequantize_per_token(integers, scale, zero, ...)
       integers = &quantized_decomposed::quantize_per_token(floats, scale, zero, low, high, ...)
       scale = &quantized_decomposed::choose_qparams_per_token(floats, ...)#0
       zero = &quantized_decomposed::choose_qparams_per_token(floats, ...)#1
     )",
     true, true},
};

/// Integers of 4 bits, two a byte: columns of a matrix, rows of a filter (numerics/nibbles.h).
ir::Constant packed_constant(const Weight& weight) {
  const bool is_matrix = weight.type.rank() == 2;
  const auto rows = static_cast<size_t>(weight.type.dims[0].max);
  const size_t size = weight.values.size() / rows;
  ir::TensorType type = weight.type;
  type.dtype = ScalarType::Byte;
  ir::Dim& halved = type.dims[is_matrix ? 1 : 0];
  halved = ir::Dim(packed_count(halved.max));
  uint8_t* bytes = nullptr;
  ir::Constant packed = new_constant(type, &bytes);
  if (!is_matrix) {
    pack_nibble_rows(weight.values.data(), rows, size, bytes);
    return packed;
  }
  for (size_t row = 0; row < rows; ++row) {
    pack_nibbles(weight.values.data() + row * size, size, bytes + row * packed_count(size));
  }
  return packed;
}

/// The integers as a constant: the module's own where they stay as they are.
ir::Argument weight_constant(ir::Program& program, ir::Node& node, const Weight& weight) {
  ir::Value* own = Dequantize(*weight.dequantize).input().value();
  const bool is_matrix = weight.type.rank() == 2;
  if (weight.is_4_bit && weight.type.rank() >= 2 && weight.type.dims[is_matrix ? 1 : 0].max > 1) {
    return {add_constant(program, *node.graph(), own->name + "_packed", packed_constant(weight), &node)};
  }
  if (own->type.tensor.dtype == ScalarType::Char) {
    return {own};
  }
  int8_t* data = nullptr;
  ir::Constant shifted = new_constant(weight.type, &data);
  std::copy(weight.values.begin(), weight.values.end(), data);
  return {add_constant(program, *node.graph(), own->name + "_signed", std::move(shifted), &node)};
}

template <typename T, typename From>
ir::Argument vector_constant(ir::Program& program, ir::Node& node, ScalarType dtype, const std::string& name,
                             const std::vector<From>& values) {
  T* data = nullptr;
  ir::Constant constant = new_constant(ir::TensorType::contiguous(dtype, {static_cast<int64_t>(values.size())}), &data);
  std::transform(values.begin(), values.end(), data, [](From value) { return static_cast<T>(value); });
  return {add_constant(program, *node.graph(), name, std::move(constant), &node)};
}

/// Scales of groups take the half of their bytes where they were rounded to bfloat16 (GroupwiseObserver).
std::optional<ir::Argument> half_scales_constant(ir::Program& program, ir::Node& node, const Weight& weight) {
  std::vector<uint16_t> halves;
  for (const float scale : weight.scales) {
    uint32_t bits = 0;
    std::memcpy(&bits, &scale, sizeof(bits));
    if ((bits & 0xFFFFu) != 0) {
      return std::nullopt;
    }
    halves.push_back(static_cast<uint16_t>(bits >> 16));
  }
  return vector_constant<uint16_t>(program, node, ScalarType::BFloat16, weight.dequantize->result()->name + "_scales",
                                   halves);
}

ir::Argument scales_constant(ir::Program& program, ir::Node& node, const Weight& weight) {
  if (weight.group_size != 0) {
    if (const std::optional<ir::Argument> halves = half_scales_constant(program, node, weight)) {
      return *halves;
    }
  }
  ir::Value* own = Dequantize(*weight.dequantize).scale().value();
  if (own != nullptr && own->type.tensor.dtype == ScalarType::Float && own->type.tensor.rank() == 1) {
    return {own};
  }
  return vector_constant<float>(program, node, ScalarType::Float, weight.dequantize->result()->name + "_scales",
                                weight.scales);
}

ir::Argument zero_points_constant(ir::Program& program, ir::Node& node, const Weight& weight) {
  if (weight.is_symmetric()) {
    return {};
  }
  const std::string name = weight.dequantize->result()->name + "_zero_points";
  const bool fit = std::all_of(weight.zero_points.begin(), weight.zero_points.end(),
                               [](int64_t zero) { return zero >= -128 && zero <= 127; });
  return fit ? vector_constant<int8_t>(program, node, ScalarType::Char, name, weight.zero_points)
             : vector_constant<int32_t>(program, node, ScalarType::Int, name, weight.zero_points);
}

/// A weight [rows, columns] with one scale, one a row, or one a group of columns.
std::optional<Weight> row_weight(const ir::Program& program, const ir::Argument& argument) {
  std::optional<Weight> weight = weight_of(program, argument);
  const bool fits = weight && weight->type.rank() == 2 && weight->axis.value_or(0) == 0;
  return fits ? weight : std::nullopt;
}

bool is_float_bias(const ir::Argument& bias) {
  return bias.is_none() || (bias.is_value() && bias.value()->type.tensor.dtype == ScalarType::Float &&
                            bias.value()->type.tensor.rank() == 1);
}

/// The output channels in a product's weight.
struct Channels {
  size_t rank;      ///< that the weight must have
  size_t axis;      ///< theirs
  int64_t repeats;  ///< groups that share the axis: transposed convolutions
};

std::optional<Channels> output_channels(const ir::Node& node) {
  if (node.op != op::convolution) {
    return Channels{2, 0, 1};
  }
  const ops::Convolution convolution(node);
  const auto transposed = int_of(convolution.transposed());
  const auto groups = int_of(convolution.groups());
  if (!transposed || !groups) {
    return std::nullopt;
  }
  const size_t rank = convolution.input().value()->type.tensor.rank();
  return *transposed != 0 ? Channels{rank, 1, *groups} : Channels{rank, 0, 1};
}

/// How the input of a product was quantized at run time.
struct DynamicInput {
  ir::Value* floats;
  bool per_token;
  bool symmetric;
  int64_t quant_min, quant_max;
  double eps;
};

std::optional<DynamicInput> dynamic_input(const ir::Program& program, const ir::Argument& argument) {
  for (const Choice& choice : kChoices) {
    const std::optional<ir::Match> m = choice.pattern.match_producer(argument, program);
    if (!m) {
      continue;
    }
    const ScalarType dtype = m->value("integers")->type.tensor.dtype;
    const auto low = int_of((*m)["low"]), high = int_of((*m)["high"]);
    const double of_tokens = choice.symmetric ? 1e-5 : static_cast<double>(std::numeric_limits<float>::epsilon());
    const auto eps = choice.per_token ? std::optional(of_tokens) : number_of((*m)["eps"]);
    ir::Value* floats = m->value("floats");
    const bool is_signed = dtype == ScalarType::Char;
    // Tokens have constants of their own in the operators that choose for them, and the whole range of i8.
    const bool fits_tokens = is_signed && high == 127 && (choice.symmetric || low == -128);
    if (!low || !high || !eps || !(static_cast<float>(*eps) > 0) || floats == nullptr ||
        floats->type.tensor.dtype != ScalarType::Float ||
        !(is_signed || (dtype == ScalarType::Byte && !choice.symmetric)) || (choice.per_token && !fits_tokens)) {
      return std::nullopt;
    }
    return DynamicInput{floats, choice.per_token, choice.symmetric, *low, *high, *eps};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ProductConstants> product_constants(ir::Program& program, ir::Node& node, float input_scale) {
  std::optional<Weight> weight = weight_of(program, ops::Linear(node).weight());
  const std::optional<Channels> outputs = output_channels(node);
  if (!weight || !outputs || !weight->is_symmetric() || weight->group_size != 0 ||
      (weight->axis && *weight->axis != outputs->axis) || weight->type.rank() != outputs->rank) {
    return std::nullopt;
  }
  const auto channels = static_cast<size_t>(weight->type.dims[outputs->axis].max * outputs->repeats);
  const bool repeats_scales = weight->axis && outputs->repeats > 1;
  if (repeats_scales) {
    std::vector<float> repeated;
    for (int64_t group = 0; group < outputs->repeats; ++group) {
      repeated.insert(repeated.end(), weight->scales.begin(), weight->scales.end());
    }
    weight->scales = std::move(repeated);
  }
  ProductConstants made;
  if (const ir::Argument& own = ops::Linear(node).bias(); !own.is_none()) {
    const std::optional<std::vector<double>> bias = bias_of(program, own);
    if (!bias || bias->size() != channels) {
      return std::nullopt;
    }
    std::vector<double> integers;
    for (size_t i = 0; i < channels; ++i) {
      const double scale =
          static_cast<double>(input_scale) * static_cast<double>(weight->scales[weight->scales.size() == 1 ? 0 : i]);
      integers.push_back(std::nearbyint((*bias)[i] / scale));
      if (!(std::abs(integers.back()) <= kLargestBias)) {
        return std::nullopt;  // stays in float: saturated, it would be another number
      }
    }
    made.bias = vector_constant<int32_t>(program, node, ScalarType::Int, own.value()->name + "_integers", integers);
  }
  made.weight = weight_constant(program, node, *weight);
  made.scales = repeats_scales ? vector_constant<float>(program, node, ScalarType::Float,
                                                        weight->dequantize->result()->name + "_scales", weight->scales)
                               : scales_constant(program, node, *weight);
  return made;
}

bool fuse_float_product(ir::Program& program, ir::Node* node) {
  const ops::Linear linear(*node);
  if (node->op != op::linear || node->graph()->is_unused(node->result()) || !is_float_bias(linear.bias()) ||
      node->result()->type.tensor.dtype != ScalarType::Float) {
    return false;
  }
  const std::optional<Weight> weight = row_weight(program, linear.weight());
  if (!weight) {
    return false;
  }
  const std::optional<DynamicInput> dynamic = dynamic_input(program, linear.input());
  const ir::Argument integers = weight_constant(program, *node, *weight);
  const ir::Argument scales = scales_constant(program, *node, *weight);
  ir::Node* created = nullptr;
  if (dynamic && weight->is_symmetric()) {
    created = create_like(*node, op::et_dynamic_linear,
                          {{dynamic->floats},
                           integers,
                           scales,
                           linear.bias(),
                           {weight->group_size},
                           {dynamic->per_token},
                           {dynamic->symmetric},
                           {dynamic->quant_min},
                           {dynamic->quant_max},
                           {dynamic->eps}});
  } else {
    created = create_like(*node, op::et_weight_only_linear,
                          {linear.input(),
                           integers,
                           scales,
                           zero_points_constant(program, *node, *weight),
                           linear.bias(),
                           {weight->group_size}});
  }
  created->add_result(node->result()->name, node->result()->type);
  replace_node(node, created);
  return true;
}

namespace {

/// An image of two dimensions and a dense filter of 8 bits, or groups that fill vectors: what kernels multiply integers
/// of.
bool is_integer_image(const ops::Convolution& convolution, const Weight& weight) {
  const auto groups = int_of(convolution.groups());
  return convolution.input().value()->type.tensor.rank() == 4 && weight.type.rank() == 4 && weight.is_symmetric() &&
         !weight.is_4_bit && int_of(convolution.transposed()) == 0 && groups && *groups > 0 &&
         (*groups == 1 || weight.type.dims[0].max / *groups >= 4);
}

}  // namespace

bool fuse_filter(ir::Program& program, ir::Node* node) {
  const bool is_clamped = node->op == op::et_convolution_clamp;
  const ops::Convolution convolution(*node);
  if ((!is_clamped && node->op != op::convolution) || node->graph()->is_unused(node->result()) ||
      node->result()->type.tensor.dtype != ScalarType::Float || !is_float_bias(convolution.bias())) {
    return false;
  }
  const std::optional<Weight> weight = weight_of(program, convolution.weight());
  const auto transposed = int_of(convolution.transposed());
  const bool fit = weight && transposed && weight->type.rank() >= 3 && weight->group_size == 0 &&
                   (!weight->axis || *weight->axis == (*transposed != 0 ? 1u : 0u)) &&
                   std::all_of(weight->zero_points.begin(), weight->zero_points.end(),
                               [](int64_t zero) { return zero >= -128 && zero <= 127; });
  if (!fit) {
    return false;
  }
  const std::optional<DynamicInput> dynamic =
      is_integer_image(convolution, *weight) ? dynamic_input(program, convolution.input()) : std::nullopt;
  const bool is_dynamic = dynamic && !dynamic->per_token;
  std::vector<ir::Argument> args = {is_dynamic ? ir::Argument{dynamic->floats} : convolution.input(),
                                    weight_constant(program, *node, *weight), scales_constant(program, *node, *weight)};
  if (is_dynamic) {
    args.insert(args.end(), {convolution.bias(),
                             convolution.stride(),
                             convolution.padding(),
                             convolution.dilation(),
                             convolution.groups(),
                             {dynamic->symmetric},
                             {dynamic->quant_min},
                             {dynamic->quant_max},
                             {dynamic->eps}});
  } else {
    args.push_back(zero_points_constant(program, *node, *weight));
    args.insert(args.end(), node->args().begin() + ops::arguments::convolution::kBias,
                node->args().begin() + ops::arguments::convolution::kGroups + 1);
  }
  for (size_t bound = 0; bound < 2; ++bound) {
    args.push_back(is_clamped ? node->args()[ops::arguments::convolution::kGroups + 1 + bound] : ir::Argument{});
  }
  ir::Node* created =
      create_like(*node, is_dynamic ? op::et_dynamic_convolution : op::et_weight_only_convolution, std::move(args));
  created->add_result(node->result()->name, node->result()->type);
  replace_node(node, created);
  return true;
}

bool fuse_embedding(ir::Program& program, ir::Node* node) {
  if (node->op != op::embedding || node->graph()->is_unused(node->result()) ||
      node->result()->type.tensor.dtype != ScalarType::Float) {
    return false;
  }
  const std::optional<Weight> weight = row_weight(program, ops::Embedding(*node).weight());
  if (!weight) {
    return false;
  }
  ir::Node* created = create_like(*node, op::et_quantized_embedding,
                                  {weight_constant(program, *node, *weight),
                                   scales_constant(program, *node, *weight),
                                   zero_points_constant(program, *node, *weight),
                                   ops::Embedding(*node).indices(),
                                   {weight->type.dims[1].max},
                                   {weight->group_size}});
  created->add_result(node->result()->name, node->result()->type);
  replace_node(node, created);
  return true;
}

}  // namespace et::passes
