#include "passes/quantized_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/op_views.h"

namespace et::passes {
namespace {

template <typename T>
bool is_range_in(int64_t low, int64_t zero_point, int64_t high) {
  return low >= std::numeric_limits<T>::min() && high <= std::numeric_limits<T>::max() && low < high &&
         zero_point >= std::numeric_limits<T>::min() && zero_point <= std::numeric_limits<T>::max();
}

bool is_known_range(ScalarType dtype, int64_t low, int64_t zero_point, int64_t high) {
  switch (dtype) {
    case ScalarType::Char: return is_range_in<int8_t>(low, zero_point, high);
    case ScalarType::Byte: return is_range_in<uint8_t>(low, zero_point, high);
    case ScalarType::Short: return is_range_in<int16_t>(low, zero_point, high);
    default: return false;
  }
}

/// Integers of a weight as i8; those of u8 move down by 128, with their zero points.
std::optional<int64_t> read_integers(const ir::Constant& constant, Weight& weight) {
  const auto count = static_cast<size_t>(constant.type.numel());
  weight.type = constant.type;
  weight.type.dtype = ScalarType::Char;
  weight.values.resize(count);
  if (constant.type.dtype == ScalarType::Char) {
    std::copy_n(static_cast<const int8_t*>(constant.data), count, weight.values.begin());
    return 0;
  }
  if (constant.type.dtype == ScalarType::Byte) {
    const auto* data = static_cast<const uint8_t*>(constant.data);
    std::transform(data, data + count, weight.values.begin(),
                   [](uint8_t value) { return static_cast<int8_t>(int{value} - 128); });
    return 128;
  }
  return std::nullopt;
}

/// Zero points as integers, one for each scale.
bool read_zero_points(const ir::Program& program, const ir::Argument& argument, int64_t offset, Weight& weight) {
  weight.zero_points.assign(weight.scales.size(), -offset);
  if (argument.is_none()) {
    return true;
  }
  if (const auto number = int_of(argument)) {
    weight.zero_points.assign(weight.scales.size(), *number - offset);
    return true;
  }
  const ir::Constant* constant = constant_of(program, argument);
  if (constant == nullptr) {
    return false;
  }
  const std::vector<double> values = numbers_of(*constant);
  if (values.size() != weight.scales.size()) {
    return false;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != std::floor(values[i]) || std::abs(values[i]) > 256) {
      return false;
    }
    weight.zero_points[i] = static_cast<int64_t>(values[i]) - offset;
  }
  return true;
}

bool read_scales(const ir::Program& program, const ir::Argument& argument, Weight& weight) {
  if (const auto number = number_of(argument)) {
    weight.scales = {static_cast<float>(*number)};
  } else if (const ir::Constant* constant = constant_of(program, argument)) {
    const std::vector<double> values = numbers_of(*constant);
    weight.scales.assign(values.begin(), values.end());
  }
  return !weight.scales.empty() &&
         std::all_of(weight.scales.begin(), weight.scales.end(), [](float scale) { return is_scale(scale); });
}

}  // namespace

bool is_run_time_conversion(std::string_view op) { return ops::has_tag(op, ops::kRunTimeScale); }

bool is_scale(double scale) {
  const auto narrow = static_cast<float>(scale);
  return narrow > 0 && std::isnormal(narrow);
}

bool Weight::is_symmetric() const {
  return std::all_of(zero_points.begin(), zero_points.end(), [](int64_t zero) { return zero == 0; });
}

std::optional<Activation> affine_of(const ir::Node& node) {
  const bool quantizes = node.op == kQuantizePerTensor;
  if (!quantizes && node.op != kDequantizePerTensor) {
    return std::nullopt;
  }
  const ops::QuantizedDecomposedQuantizePerTensor affine(node);  // dequantize has the same arguments
  ir::Value* from = affine.input().value();
  const auto scale = number_of(affine.scale());
  const auto zero_point = int_of(affine.zero_point());
  const auto low = int_of(affine.quant_min()), high = int_of(affine.quant_max());
  if (from == nullptr || !scale || !zero_point || !low || !high || !is_scale(*scale)) {
    return std::nullopt;
  }
  ir::Value* integers = quantizes ? node.result() : from;
  const ir::Value* floats = quantizes ? from : node.result();
  const ScalarType dtype = integers->type.tensor.dtype;
  if (floats->type.tensor.dtype != ScalarType::Float || !is_known_range(dtype, *low, *zero_point, *high)) {
    return std::nullopt;
  }
  return Activation{integers, dtype, *scale, *zero_point, *low, *high};
}

std::optional<Activation> activation_of(const ir::Argument& argument) {
  const ir::Node* node = producer_if(argument, {kDequantizePerTensor});
  return node == nullptr || !node->tag.empty() ? std::nullopt : affine_of(*node);
}

std::optional<double> factor_of(const ir::Program& program, const ir::Node& node, size_t input) {
  const bool divides = is_one_of(node.op, {op::div_Tensor, op::div_Scalar}) && input == 0;
  if (!divides && !is_one_of(node.op, {op::mul_Tensor, op::mul_Scalar})) {
    return std::nullopt;
  }
  const ops::MulTensor product(node);  // a quotient begins alike
  const ir::Argument& other = input == 0 ? product.other() : product.self();
  const ir::Constant* constant = constant_of(program, other);
  const bool is_one = constant != nullptr && constant->type.is_static() && constant->type.numel() == 1;
  const std::vector<double> numbers = is_one ? numbers_of(*constant) : std::vector<double>();
  const std::optional<double> number = numbers.size() == 1 ? numbers.front() : number_of(other);
  if (!number || !std::isnormal(*number) || *number < 0) {
    return std::nullopt;
  }
  return divides ? 1 / *number : *number;
}

std::optional<Weight> weight_of(const ir::Program& program, const ir::Argument& argument) {
  const ir::Node* node = producer_if(argument, {kDequantizePerTensor, kDequantizePerChannel, kDequantizePerGroup});
  if (node == nullptr || !node->tag.empty() || node->result()->type.tensor.dtype != ScalarType::Float) {
    return std::nullopt;
  }
  return read_weight(program, *node);
}

std::optional<Weight> read_weight(const ir::Program& program, const ir::Node& node) {
  const ir::Constant* integers = constant_of(program, Dequantize(node).input());
  if (integers == nullptr || !integers->type.is_row_major() || integers->type.rank() == 0) {
    return std::nullopt;
  }
  Weight weight;
  weight.dequantize = &node;
  const std::optional<int64_t> offset = read_integers(*integers, weight);
  if (!offset || !read_scales(program, Dequantize(node).scale(), weight) ||
      !read_zero_points(program, Dequantize(node).zero_point(), *offset, weight)) {
    return std::nullopt;
  }
  weight.is_4_bit = !weight.values.empty() && std::all_of(weight.values.begin(), weight.values.end(),
                                                          [](int8_t value) { return value >= -8 && value <= 7; });
  const std::vector<ir::Dim>& dims = weight.type.dims;
  if (node.op == kDequantizePerChannel) {
    const auto axis = int_of(ops::QuantizedDecomposedDequantizePerChannel(node).axis());
    const auto rank = static_cast<int64_t>(dims.size());
    if (!axis || *axis < -rank || *axis >= rank) {
      return std::nullopt;
    }
    weight.axis = static_cast<size_t>((*axis + rank) % rank);
    if (weight.scales.size() != static_cast<size_t>(dims[*weight.axis].max)) {
      return std::nullopt;
    }
  } else if (node.op == kDequantizePerGroup) {
    weight.group_size = int_of(ops::QuantizedDecomposedDequantizePerChannelGroup(node).group_size()).value_or(0);
    if (dims.size() != 2 || weight.group_size < 1) {
      return std::nullopt;
    }
    weight.group_size = std::min(weight.group_size, dims[1].max);
    if (weight.group_size == 0 || dims[1].max % weight.group_size != 0 ||
        weight.scales.size() != static_cast<size_t>(dims[0].max * (dims[1].max / weight.group_size))) {
      return std::nullopt;
    }
  } else if (weight.scales.size() != 1) {
    return std::nullopt;
  }
  return weight;
}

std::optional<std::vector<double>> bias_of(const ir::Program& program, const ir::Argument& argument) {
  if (const ir::Constant* constant = constant_of(program, argument)) {
    return is_floating(constant->type.dtype) ? std::optional(numbers_of(*constant)) : std::nullopt;
  }
  const ir::Node* node = producer_if(argument, {kDequantizePerTensor, kDequantizePerChannel});
  const ir::Constant* integers = node == nullptr ? nullptr : constant_of(program, Dequantize(*node).input());
  if (integers == nullptr) {
    return std::nullopt;
  }
  const auto parameters = [&](const ir::Argument& given, double otherwise) -> std::vector<double> {
    if (const auto number = number_of(given)) {
      return {*number};
    }
    const ir::Constant* constant = constant_of(program, given);
    return constant != nullptr ? numbers_of(*constant) : std::vector<double>{otherwise};
  };
  std::vector<double> values = numbers_of(*integers);
  const std::vector<double> scales = parameters(Dequantize(*node).scale(), std::numeric_limits<double>::quiet_NaN());
  const std::vector<double> zero_points = parameters(Dequantize(*node).zero_point(), 0);
  const auto fits = [&](size_t count) { return count == 1 || count == values.size(); };
  if (!fits(scales.size()) || !fits(zero_points.size()) || std::isnan(scales.front())) {
    return std::nullopt;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (values[i] - zero_points[zero_points.size() == 1 ? 0 : i]) * scales[scales.size() == 1 ? 0 : i];
  }
  return values;
}

}  // namespace et::passes
