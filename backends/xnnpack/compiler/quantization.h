/// Quantized parts of a graph: what the q/dq nodes say, which operators become integer nodes, and the nodes themselves.
///
/// For: op_support.cpp and the emitters. The contract with quantizers are the quantized_decomposed operators as
/// torchao's PT2E flow leaves them: weights are dequantized constants, activations are quantized and dequantized around
/// operators with numbers (static) or with parameters that choose_qparams computes (dynamic).
#pragma once

#include "backends/xnnpack/compiler/lowering.h"
#include "backends/xnnpack/compiler/op_support.h"

namespace et::backends::xnnpack {

/// True when `value` is a dequantized constant.
bool is_quantized_weight(const ir::Value* value);
/// Why a linear layer or convolution with an integer weight cannot be taken; "" when it can.
std::string quantized_product_refusal(const Question& question);

/// True when every path from parameters of run-time quantization leads over quantize and dequantize into products that
/// can be taken.
bool feeds_products_only(const ir::Value* value, const Question& question);

/// The last of the clamps behind a node, each the only user of what is before it; the node itself when there is none.
const ir::Node& last_clamp(const ir::Node& node);

/// True for a product of integers and for what stands between a dequantize and a quantize, clamps behind it
/// included: what the graph calls float32 there are integers in the delegate.
bool computes_on_integers(const ir::Node& node);

/// Rows of quantize, dequantize and choose_qparams; nullptr for other operators.
const OperatorRow* find_quantization_operator(std::string_view op);
bool is_quantization_operator(std::string_view op);

/// An integer weight as the format has it.
struct IntegerWeight {
  ValueSpec spec;              ///< qint8, qcint8, qcint4 or qbint4; dims as in the IR
  std::vector<int8_t> values;  ///< row-major, dims of the IR; not packed to 4 bits yet
  std::vector<double> scales;  ///< [1], [channels], or [channels, groups]
  size_t axis = 0;             ///< of the channels
};
/// Reads a weight that is_quantized_weight accepts. Errors: nothing when its scales are unusual.
std::optional<IntegerWeight> read_weight(const ir::Program& program, const ir::Value* value);

/// The bias of a product as numbers: a constant, or integers that are dequantized; empty when there is none, or none is
/// known yet. Errors: nothing when integers are not constant.
std::optional<std::vector<double>> bias_of_product(const ir::Program& program, const ir::Argument& bias);

/// Whether a bias can be written divided by the scale of its channel. Products of floats with integer weights want it
/// so: the library adds it to the sums of integers and scales both.
bool fits_scaled(double bias, double scale);

/// Why a quantize or dequantize with fixed parameters is not taken; "" when it is.
std::string static_refusal(const Question& question);

/// How a product gets its input.
enum class InputKind : uint8_t { kFloat, kStatic, kDynamic };
InputKind input_kind(const ir::Value* value);
/// The float value that is quantized at run time in front of a kDynamic input.
const ir::Value* dynamic_source(const ir::Value* value);

/// A product whose operands are integers: define the values around it. `filter` and `bias` are ids.
struct ProductValues {
  uint32_t input = kInvalidId, filter = kInvalidId, bias = kInvalidId, output = kInvalidId;
  std::optional<Clamp> clamp;
};
/// Values of a product. `filter_perm` brings the weight's dims (of the IR, viewed as `weight_dims`) into the format's
/// order; `channel_dim` is where the output channels stand then. Handles float, static and dynamic inputs.
Error product_values(Lowering& lowering, const ir::Node& node, const ir::Argument& input, const ir::Argument& weight,
                     const ir::Argument& bias, const std::vector<uint32_t>& weight_dims,
                     const std::vector<size_t>& filter_perm, size_t channel_dim, Form form, ProductValues& out);

/// Writes a binary operator on integers when operands and result are quantized; false when they are not.
bool emit_quantized_binary(Lowering& lowering, const ir::Node& node, payload::NodeUnion type);
/// Ids of the integers before and behind a function of one tensor, which the library looks up in a table of 256 bytes;
/// nothing when one side is not quantized. Skips the quantize behind.
struct Between {
  uint32_t input = kInvalidId, output = kInvalidId;
};
std::optional<Between> integers_around(Lowering& lowering, const ir::Node& node);
bool emit_quantized_clamp(Lowering& lowering, const ir::Node& node);
bool emit_quantized_concatenate(Lowering& lowering, const ir::Node& node, const std::vector<const ir::Value*>& parts);
/// Operators with one input that work on integers as they do on numbers (pooling, views, slices): source and result, as
/// integers when both are quantized with one scale (with `rescales`: any two), else as floats. Skips the quantize
/// behind.
struct Movement {
  const ir::Value* from = nullptr;
  const ir::Value* to = nullptr;
};
Movement movement_of(Lowering& lowering, const ir::Node& node, bool rescales = false);
/// The same for one result of several.
Movement movement_of(Lowering& lowering, const ir::Value* from, const ir::Value* result, bool rescales = false);

}  // namespace et::backends::xnnpack
