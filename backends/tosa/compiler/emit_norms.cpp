#include "backends/tosa/compiler/arithmetic.h"
#include "backends/tosa/compiler/emitters.h"
#include "numerics/integer_norm.h"
#include "numerics/integer_softmax.h"
#include "ops/arguments.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::constant_of;
using passes::int_of;
using passes::ints_of;
using passes::number_of;

double scale_of(const ir::Argument& argument) {
  return static_cast<double>(static_cast<float>(*number_of(argument)));  // as kernels read it
}

Rescale rescale_of(const FixedFactor& factor) { return {factor.multiplier, static_cast<int8_t>(factor.shift)}; }

/// The result of a node at these arguments: zero point, min, max.
Output output_of(const ir::Node& node, size_t zero_point) {
  return {*int_of(node.args()[zero_point]), *int_of(node.args()[zero_point + 1]), *int_of(node.args()[zero_point + 2])};
}

payload::DType type_of(const ir::Node& node) { return Lowering::type_of(node.result()->type.tensor.dtype); }

void finish(Lowering& lowering, const ir::Node& node, TensorId result, const Rescale& factor, const Output& output) {
  const TensorId out = lowering.clamp(lowering.rescale(result, type_of(node), {factor}, 0, output.zero_point), output);
  const Shape shape = Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor);
  lowering.set(node.result(), Form::kRowMajor, lowering.reshape(out, shape));
}

/// Numbers of 8 * `bytes` bits for each int8, from -128 on. Tables have 8 bits on all devices, so there is one for each
/// byte.
TensorId numbers_of(Lowering& lowering, Arithmetic& in, TensorId steps, const std::vector<int32_t>& numbers,
                    int bytes) {
  TensorId out = kNoTensor;
  for (int byte = bytes - 1; byte >= 0; --byte) {
    std::vector<int8_t> entries;
    for (const int32_t number : numbers) {
      entries.push_back(static_cast<int8_t>((number >> (8 * byte) & 255) - 128));
    }
    const Rescale in_place{1 << 30, static_cast<int8_t>(30 - 8 * byte)};
    const TensorId part = lowering.rescale(in.table(steps, entries), payload::DType_INT32, {in_place}, -128, 0);
    out = out == kNoTensor ? part : in.add(out, part);
  }
  return out;
}

/// Powers of differences to the largest element, which are not positive.
TensorId powers_of(Lowering& lowering, Arithmetic& in, TensorId differences, float scale) {
  const SoftmaxPowers power_of(scale);
  std::vector<int32_t> powers;
  for (int32_t i = 255; i >= 0; --i) {
    powers.push_back(power_of(i));
  }
  const TensorId steps = lowering.rescale(differences, payload::DType_INT8, {Rescale{1 << 30, 30}}, 0, 127);
  return numbers_of(lowering, in, steps, powers, 2);
}

/// Of differences of 16 bits: both bytes have their powers.
TensorId wide_powers_of(Lowering& lowering, Arithmetic& in, TensorId differences, const WideSoftmaxPowers& power_of) {
  std::vector<int32_t> high, low;
  for (int32_t i = 0; i < 256; ++i) {
    high.push_back(power_of.high(i));
    low.push_back(power_of.low(i));
  }
  const auto byte = [&](TensorId number) {
    return lowering.rescale(number, payload::DType_INT8, {Rescale{1 << 30, 30}}, 0, -128);
  };
  const TensorId steps = in.sub(in.number(differences, 0), differences);
  const TensorId upper = in.floor_shift(steps, in.number(steps, 8));
  const TensorId lower = in.sub(steps, in.shift_left(upper, in.number(steps, 8)));
  return in.mul(numbers_of(lowering, in, byte(upper), high, 3), numbers_of(lowering, in, byte(lower), low, 3),
                2 * WideSoftmaxPowers::kByteBits - power_of.bits);
}

}  // namespace

Error emit_softmax(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_softmax;
  const auto& args = node.args();
  const auto rank = static_cast<int64_t>(node.result()->type.tensor.rank());
  const int64_t dim = *int_of(args[kDim]);
  const auto axis = static_cast<int32_t>(dim < 0 ? dim + rank : dim);
  Arithmetic in(lowering);
  const TensorId x = lowering.get(args[kSelf].value(), Form::kRowMajor);
  const TensorId difference = in.sub(lowering.widen(x, 0), lowering.widen(in.largest(x, axis), 0));
  const auto scale = static_cast<float>(scale_of(args[kSelfScale]));
  const bool is_wide = type_of(node) == payload::DType_INT16;
  const WideSoftmaxPowers wide(scale, lowering.writer.shape_of(x)[static_cast<size_t>(axis)]);
  const int bits = is_wide ? wide.bits : SoftmaxShares::kPowerBits;
  const TensorId powers =
      is_wide ? wide_powers_of(lowering, in, difference, wide) : powers_of(lowering, in, difference, scale);
  const TensorId sum = in.sum(powers, axis);
  const TensorId zeros = in.leading_zeros(sum);
  const TensorId normal = in.shift_left(sum, in.sub(zeros, in.number(x, 1)));
  const TensorId inverse =
      in.shift_right(in.newton<Reciprocal>(normal, Reciprocal::kTwo, false), in.sub(in.number(x, 32 - bits), zeros));
  const TensorId shares = in.mul(powers, inverse, bits - 1);
  finish(lowering, node, shares, rescale_of(SoftmaxShares::to_output(scale_of(args[kOutputScale]))),
         output_of(node, kOutputZeroPoint));
  return Error::Ok;
}

IntegerNorm norm_of(const ir::Node& node) {
  using namespace ops::arguments::et_quantized_layer_norm;
  const std::vector<int64_t> sizes = *ints_of(node.args()[kNormalizedShape]);
  int64_t length = 1;
  for (const int64_t size : sizes) {
    length *= size;
  }
  const bool is_wide = node.result()->type.tensor.dtype == ScalarType::Short;
  return {length, *number_of(node.args()[kEps]), scale_of(node.args()[kInputScale]), is_wide};
}

NormOutput norm_output_of(const ir::Program& program, const ir::Node& node, const IntegerNorm& norm) {
  using namespace ops::arguments::et_quantized_layer_norm;
  const auto values_of = [&](size_t i) {
    const ir::Constant* constant = constant_of(program, node.args()[i]);
    return constant == nullptr ? nullptr : static_cast<const float*>(constant->data);
  };
  return {norm, scale_of(node.args()[kOutputScale]), values_of(kWeight), values_of(kBias)};
}

Error emit_layer_norm(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_layer_norm;
  const auto& args = node.args();
  const IntegerNorm norm = norm_of(node);
  const NormOutput output = norm_output_of(lowering.program(), node, norm);
  const auto length = static_cast<int32_t>(norm.length());
  const auto rows = static_cast<int32_t>(node.result()->type.tensor.max_numel() / length);
  Arithmetic in(lowering);
  const TensorId x = lowering.reshape(lowering.get(args[kInput].value(), Form::kRowMajor), {rows, length});
  const auto with_fraction = [&](int bits) {
    return lowering.rescale(x, payload::DType_INT32, {Rescale{1 << 30, static_cast<int8_t>(30 - bits)}},
                            *int_of(args[kInputZeroPoint]), 0);
  };
  const TensorId fine = with_fraction(norm.fraction);
  const TensorId added = norm.sum_fraction == norm.fraction ? fine : with_fraction(norm.sum_fraction);
  const TensorId mean = lowering.rescale(in.sum(added, 1), payload::DType_INT32, {rescale_of(norm.mean)}, 0, 0);
  const TensorId distances = in.sub(fine, mean);
  const TensorId squares = in.sum(in.mul(distances, distances, norm.square_shift), 1);
  const TensorId sum = in.add(squares, in.number(x, norm.epsilon));
  // Shifted by an even number, which is twice `half`, so that the root is shifted by `half`.
  const TensorId half = in.shift_right(in.sub(in.leading_zeros(sum), in.number(x, 2)), in.number(x, 1));
  const TensorId normal = in.shift_left(sum, in.add(half, half));
  const TensorId inverse =
      in.shift_right(in.newton<InverseRoot>(normal, InverseRoot::kThree, true), in.sub(in.number(x, 15), half));
  // Ethos-U reads a constant again for each row, from slow flash; a copy that is computed stands in SRAM.
  const TensorId first = lowering.slice(inverse, {0, 0}, {1, 1});
  const TensorId zero = in.sub(first, first);
  const auto row = [&](bool is_one, auto value_of) {
    std::vector<int32_t> values;
    for (int64_t i = 0; i < (is_one ? 1 : norm.length()); ++i) {
      values.push_back(value_of(i));
    }
    const Shape shape = {1, static_cast<int32_t>(values.size())};
    return in.add(lowering.writer.add_numbers(payload::DType_INT32, shape, values), zero);
  };
  TensorId result =
      in.mul(in.mul(distances, inverse, norm.normal_shift),
             row(args[kWeight].is_none(), [&](int64_t i) { return output.weight(i); }), output.weight_shift);
  if (!args[kBias].is_none()) {
    result = in.add(result, row(false, [&](int64_t i) { return output.bias(i); }));
  }
  finish(lowering, node, result, {1 << 30, static_cast<int8_t>(30 + output.shift)}, output_of(node, kOutputZeroPoint));
  return Error::Ok;
}

}  // namespace et::backends::tosa::compiler
