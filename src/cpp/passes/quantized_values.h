/// What q/dq nodes say about a value: an activation's integers and their affine parameters, a weight's integers and
/// scales.
///
/// For: the passes that make integer operators. Not for: rewriting.
///
///     const std::optional<Activation> x = activation_of(linear.input());         // dequantize_per_tensor, literals
///     const std::optional<Weight> w = weight_of(program, linear.weight());       // a dequantized constant
#pragma once

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {

inline constexpr std::string_view kQuantizePerTensor = op::quantized_decomposed_quantize_per_tensor;
inline constexpr std::string_view kDequantizePerTensor = op::quantized_decomposed_dequantize_per_tensor;
inline constexpr std::string_view kDequantizePerChannel = op::quantized_decomposed_dequantize_per_channel;
inline constexpr std::string_view kDequantizePerGroup = op::quantized_decomposed_dequantize_per_channel_group;

/// The largest integer of a bias in int32: the other half is left for the sum that it is added to. Quantizers aim at
/// half of it (quantizer/calibration/biases.py).
inline constexpr double kLargestBias = 1 << 30;

/// Nodes of these operators. Dequantize also reads the first three arguments of the others: input, scale, zero point.
using Quantize = ops::QuantizedDecomposedQuantizePerTensor;
using Dequantize = ops::QuantizedDecomposedDequantizePerTensor;

/// Integers of 8 or 16 bits with one scale: what dequantize_per_tensor reads, or quantize_per_tensor writes.
struct Activation {
  ir::Value* integers = nullptr;
  ScalarType dtype = ScalarType::Char;
  double scale = 1;
  int64_t zero_point = 0;
  int64_t quant_min = 0;
  int64_t quant_max = 0;

  bool same_parameters(const Activation& o) const {
    return dtype == o.dtype && scale == o.scale && zero_point == o.zero_point && quant_min == o.quant_min &&
           quant_max == o.quant_max;
  }
};

/// Whether an operator is a part of a quantization at run time: the choice of scales, and the conversions that take
/// them.
bool is_run_time_conversion(std::string_view op);

/// A scale that integer operators and backends take: a positive normal float.
bool is_scale(double scale);

/// The parameters of a quantize_per_tensor or dequantize_per_tensor node. There are none for other nodes, when a
/// parameter is computed or outside of its type, for scales that are no positive normal float, for other integer types,
/// and for floats that are not f32.
std::optional<Activation> affine_of(const ir::Node& node);
/// The integers behind a dequantized value that is not tagged.
std::optional<Activation> activation_of(const ir::Argument& argument);

/// By how much a node multiplies its argument `input`, the first or the second, where that is a positive number.
std::optional<double> factor_of(const ir::Program& program, const ir::Node& node, size_t input);

/// A constant weight as 8-bit integers: x = scale * (q - zero_point).
struct Weight {
  const ir::Node* dequantize = nullptr;
  ir::TensorType type;               ///< i8
  std::vector<int8_t> values;        ///< row-major
  std::vector<float> scales;         ///< [1], [channels] or [rows * groups]
  std::vector<int64_t> zero_points;  ///< as many as scales
  std::optional<size_t> axis;        ///< of the channels; nothing when one scale is for all
  int64_t group_size = 0;            ///< columns that share a scale; 0 = no groups
  bool is_4_bit = false;             ///< all values are within [-8, 7]

  bool is_symmetric() const;
};

/// The weight behind a dequantized constant that is not tagged. Nothing for other values, and for types or scales that
/// integer kernels lack.
std::optional<Weight> weight_of(const ir::Program& program, const ir::Argument& argument);

/// The weight that a node dequantizes, one of the three kDequantize operators: what weight_of and backends read.
std::optional<Weight> read_weight(const ir::Program& program, const ir::Node& dequantize);

/// The elements of a constant bias, dequantized where it is quantized; nothing when it is no constant.
std::optional<std::vector<double>> bias_of(const ir::Program& program, const ir::Argument& argument);

}  // namespace et::passes
