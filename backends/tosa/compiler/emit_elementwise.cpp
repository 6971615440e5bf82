#include <algorithm>
#include <cmath>

#include "backends/tosa/compiler/emitters.h"
#include "backends/tosa/compiler/operands.h"
#include "ir/op_views.h"
#include "numerics/exact_factor.h"
#include "ops/arguments.h"
#include "ops/names.h"
#include "passes/quantized_values.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::int_of;
using passes::number_of;

// quantized_add, _sub and _mul have the same arguments.
using namespace ops::arguments::et_quantized_add;

float scale_of(const ir::Node& node, size_t i) { return static_cast<float>(*number_of(node.args()[i])); }

Output output_of(const ir::Node& node) {
  return {*int_of(node.args()[kOutputZeroPoint]), *int_of(node.args()[kOutputMin]), *int_of(node.args()[kOutputMax])};
}

/// An integer of at most 21 bits as a factor of an operand, whose values have 8 bits and a sign: exact.
Rescale exact_factor(int32_t factor) { return {factor << 9, 9}; }

/// As kernels/quantized/fixed_point_sum.h has it: both scales in units of the larger one's 21 bits.
FixedPoint fixed_point(float a_scale, float b_scale, float output_scale, bool subtract) {
  const float a = a_scale / output_scale, b = b_scale / output_scale;
  int exponent = 0;
  std::frexp(std::max(a, b), &exponent);
  FixedPoint out;
  out.shift = 21 - exponent;
  out.a = static_cast<int32_t>(std::lrint(std::ldexp(a, out.shift)));
  out.b = static_cast<int32_t>(std::lrint(std::ldexp(b, out.shift))) * (subtract ? -1 : 1);
  return out;
}

/// The kernels' factors, where narrower ones do not give their integers.
SumRescales own_rescales(const FixedPoint& sum) {
  return {sum.a, sum.b, {1 << 30, static_cast<int8_t>(30 + sum.shift)}};
}

Error emit_narrow_sum(Lowering& lowering, const ir::Node& node, payload::Op op) {
  const Operands pair = operands_of(lowering, node, {kSelf, kOther});
  const int64_t a_zero = *int_of(node.args()[kSelfZeroPoint]), b_zero = *int_of(node.args()[kOtherZeroPoint]);
  const Output output = output_of(node);
  const FixedPoint sum = fixed_point(scale_of(node, kSelfScale), scale_of(node, kOtherScale),
                                     scale_of(node, kOutputScale), op == payload::Op_SUB);
  const SumRescales by = matching_sum(sum, {-128 - a_zero, 127 - a_zero}, {-128 - b_zero, 127 - b_zero},
                                      {output.min - output.zero_point, output.max - output.zero_point})
                             .value_or(own_rescales(sum));
  const auto scaled = [&](TensorId from, int64_t zero_point, int32_t factor) {
    return lowering.rescale(from, payload::DType_INT32, {exact_factor(std::abs(factor))}, zero_point, 0);
  };
  const TensorId a = scaled(pair.ids[0], a_zero, by.a);
  const TensorId total = lowering.binary(op, a, scaled(pair.ids[1], b_zero, by.b), pair.shape);
  const TensorId out = lowering.rescale(total, payload::DType_INT8, {by.back}, 0, output.zero_point);
  lowering.set(node.result(), pair.form, lowering.clamp(out, output));
  return Error::Ok;
}

/// Of 16 bits.
Error emit_wide_sum(Lowering& lowering, const ir::Node& node, payload::Op op) {
  const auto by = wide_sum_of(node);
  if (!by) {
    return lowering.refuse(node, "cannot add with scales that are so far apart");
  }
  const Operands pair = operands_of(lowering, node, {kSelf, kOther});
  const auto scaled = [&](size_t i, const Rescale& factor) {
    return lowering.rescale(pair.ids[i], payload::DType_INT32, {factor}, 0, 0);
  };
  const TensorId a = scaled(0, by->a);
  const TensorId sum = lowering.binary(op, a, scaled(1, by->b), pair.shape);
  const Output output = output_of(node);
  const TensorId out = lowering.rescale(sum, payload::DType_INT16, {by->back}, 0, output.zero_point);
  lowering.set(node.result(), pair.form, lowering.clamp(out, output));
  return Error::Ok;
}

}  // namespace

/// As numerics' WideSum has it.
std::optional<WideSumRescales> wide_sum_of(const ir::Node& node) {
  const float output_scale = scale_of(node, kOutputScale);
  const float a = scale_of(node, kSelfScale) / output_scale, b = scale_of(node, kOtherScale) / output_scale;
  int exponent = 0;
  std::frexp(std::max(a, b), &exponent);
  const int shift = kWideSumBits - exponent;
  const auto of_a = exact_rescale(std::ldexp(a, shift)), of_b = exact_rescale(std::ldexp(b, shift));
  return of_a && of_b ? std::optional(WideSumRescales{*of_a, *of_b, {1 << 30, static_cast<int8_t>(30 + shift)}})
                      : std::nullopt;
}

Error emit_sum(Lowering& lowering, const ir::Node& node, payload::Op op) {
  return node.result()->type.tensor.dtype == ScalarType::Short ? emit_wide_sum(lowering, node, op)
                                                               : emit_narrow_sum(lowering, node, op);
}
Error emit_add(Lowering& lowering, const ir::Node& node) { return emit_sum(lowering, node, payload::Op_ADD); }
Error emit_sub(Lowering& lowering, const ir::Node& node) { return emit_sum(lowering, node, payload::Op_SUB); }

Error emit_mul(Lowering& lowering, const ir::Node& node) {
  const Operands pair = operands_of(lowering, node, {kSelf, kOther});
  const TensorId a = lowering.widen(pair.ids[0], *int_of(node.args()[kSelfZeroPoint]));
  const TensorId b = lowering.widen(pair.ids[1], *int_of(node.args()[kOtherZeroPoint]));
  TensorId out = lowering.binary(payload::Op_MUL, a, b, pair.shape);
  const float factor = scale_of(node, kSelfScale) * scale_of(node, kOtherScale) / scale_of(node, kOutputScale);
  const int64_t largest = lowering.writer.type_of(pair.ids[0]) == payload::DType_INT16 ? 1 << 30 : 255 * 255;
  ET_RETURN_IF_ERROR(lowering.to_integers(node, out, {factor}, {largest}, output_of(node), &out));
  lowering.set(node.result(), pair.form, out);
  return Error::Ok;
}

Error emit_dequantize(Lowering& lowering, const ir::Node& node) {
  const ir::Value* from = node.args()[0].value();
  const Form form = lowering.form_of(from);
  lowering.set(node.result(), form, lowering.get(from, form));
  return Error::Ok;
}

Error emit_requantize(Lowering& lowering, const ir::Node& node) {
  const ir::Value* from = node.args()[0].value();
  const auto in = from->producer() == nullptr ? std::nullopt : passes::affine_of(*from->producer());
  const auto result = passes::affine_of(node);
  if (!in || !result || in->dtype != result->dtype) {
    return lowering.refuse(node, "quantizes floats");
  }
  const Form form = lowering.form_of(from);
  TensorId out = lowering.get(from, form);
  const Output output{result->zero_point, result->quant_min, result->quant_max};
  if (in->scale == result->scale && in->zero_point == result->zero_point) {
    out = lowering.clamp(out, output);
  } else {
    const float factor = static_cast<float>(in->scale) / static_cast<float>(result->scale);
    const auto exact = exact_rescale(factor);
    if (!exact || reach_of(*exact) < reach_of(lowering.writer.type_of(out), in->zero_point)) {
      return lowering.refuse(node, "cannot rescale by " + std::to_string(factor));
    }
    out = lowering.rescale(out, lowering.writer.type_of(out), {*exact}, in->zero_point, output.zero_point);
    out = lowering.clamp(out, output);
  }
  lowering.set(node.result(), form, out);
  return Error::Ok;
}

Error emit_table(Lowering& lowering, const ir::Node& node) {
  const ops::EtQuantizedTable call(node);
  const ir::Value* from = call.self().value();
  const Form form = lowering.form_of(from);
  const TensorId input = lowering.get(from, form);
  const ir::Constant& table = *passes::constant_of(lowering.program(), call.table());
  PayloadWriter& writer = lowering.writer;
  const bool has_lines = writer.type_of(input) == payload::DType_INT16;
  const auto count = static_cast<int32_t>(table.type.numel());
  const TensorId entries = writer.add_constant(
      writer.type_of(input), {count},
      std::string(static_cast<const char*>(table.data), static_cast<size_t>(table.type.max_nbytes())));
  TensorId out = writer.add_tensor(has_lines ? payload::DType_INT32 : payload::DType_INT8, writer.shape_of(input));
  writer.add(payload::Op_TABLE, payload::CreateTableAttribute(writer.builder).Union(), {input, entries}, out);
  if (has_lines) {  // with 7 bits behind the point
    out = lowering.rescale(out, payload::DType_INT16, {Rescale{1 << 30, 37}}, 0, 0);
  }
  lowering.set(node.result(), form, out);
  return Error::Ok;
}

}  // namespace et::backends::tosa::compiler
