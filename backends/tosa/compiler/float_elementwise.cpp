#include <cmath>
#include <limits>

#include "backends/tosa/compiler/arithmetic.h"
#include "backends/tosa/compiler/float_operators.h"
#include "backends/tosa/compiler/operands.h"
#include "ir/literals.h"
#include "ir/op_views.h"
#include "ops/arguments.h"
#include "ops/names.h"

namespace et::backends::tosa::compiler {
namespace {

using ir::number_of;
using Ids = std::vector<TensorId>;
/// Writes a function of operands that have one form and one rank.
using Formula = TensorId(Arithmetic& in, const Ids& x, const ir::Node& node);

constexpr const char* kTaken = "";
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLn2 = 0.6931471805599453, kLn10 = 2.302585092994046, kSqrtHalf = 0.7071067811865476;

// ---- checks

/// Operands from `first` on, `count` of them, are numbers or tensors of one type of floats.
std::string floats_refusal(const Question& q, size_t first, size_t count) {
  std::optional<ScalarType> found;
  for (size_t i = first; i < first + count; ++i) {
    if (q.arg(i).value() == nullptr) {
      if (!number_of(q.arg(i))) {
        return "an operand that is computed at run time and is no tensor";
      }
      continue;
    }
    const ScalarType dtype = q.type(i).dtype;
    if (!is_floating(dtype) || found.value_or(dtype) != dtype) {
      return "operands that are not of one type with floats";
    }
    found = dtype;
  }
  return found ? kTaken : "operands that are all numbers";
}

/// Of two integers, too: both have one scale.
std::string larger_of_two(const Question& q) {
  const auto is_integers = [&](size_t i) {
    return q.arg(i).value() != nullptr && !is_floating(q.type(i).dtype) && q.type(i).dtype == q.result_type().dtype;
  };
  return is_integers(0) && is_integers(1) && q.result_type().dtype != ScalarType::Bool ? kTaken
                                                                                       : floats_refusal(q, 0, 2);
}

/// A further argument, such as alpha, must be a number that is known now.
std::string number_refusal(const Question& q, size_t i) {
  return number_of(q.arg(i)) ? kTaken : "a number that is computed at run time";
}

template <size_t kCount>
std::string floats(const Question& q) {
  return floats_refusal(q, 0, kCount);
}

/// Operands and a number behind them.
template <size_t kCount>
std::string floats_and_number(const Question& q) {
  const std::string why = floats_refusal(q, 0, kCount);
  return why.empty() ? number_refusal(q, kCount) : why;
}

template <size_t kCount>
std::string bools(const Question& q) {
  for (size_t i = 0; i < kCount; ++i) {
    if (q.arg(i).value() == nullptr || q.type(i).dtype != ScalarType::Bool) {
      return "operands that are not torch.bool";
    }
  }
  return kTaken;
}

std::string choice(const Question& q) {
  return q.type(0).dtype == ScalarType::Bool ? floats_refusal(q, 1, 2) : "a condition that is not torch.bool";
}

std::string filling(const Question& q) {
  using namespace ops::arguments::masked_fill_Scalar;
  return q.type(kMask).dtype == ScalarType::Bool && is_floating(q.type(kSelf).dtype) ? number_refusal(q, kValue)
                                                                                     : "a mask that is not torch.bool";
}

std::string bounds(const Question& q) {
  for (size_t i = 1; i < 3; ++i) {
    if (!q.arg(i).is_none() && !number_of(q.arg(i))) {
      return "a bound that is computed at run time";
    }
  }
  return floats_refusal(q, 0, 1);
}

std::string division(const Question& q) {
  using ops::arguments::div_Tensor_mode::kRoundingMode;
  const auto* mode = q.arg(kRoundingMode).as<std::string>();
  return q.arg(kRoundingMode).is_none() || (mode != nullptr && (*mode == "floor" || *mode == "trunc"))
             ? floats_refusal(q, 0, 2)
             : "another rounding mode";
}

std::string numbers_behind(const Question& q) {
  for (size_t i = 1; i < q.node.args().size(); ++i) {
    if (!number_of(q.arg(i))) {
      return number_refusal(q, i);
    }
  }
  return floats_refusal(q, 0, 1);
}

bool is_taken_type(ScalarType dtype) { return is_floating(dtype) || dtype == ScalarType::Bool; }

std::string conversion(const Question& q) {
  return is_taken_type(q.type(0).dtype) && is_taken_type(q.result_type().dtype)
             ? kTaken
             : "a conversion from or to integers, which the profile FP leaves outside";
}

// ---- formulas

template <payload::Op kOp>
TensorId unary(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.unary(kOp, x[0]);
}

template <payload::Op kOp>
TensorId binary(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.binary(kOp, x[0], x[1]);
}

/// Of integers in 32 bits, which TOSA has.
template <payload::Op kOp>
TensorId extreme(Arithmetic& in, const Ids& x, const ir::Node& node) {
  const ScalarType dtype = node.result()->type.tensor.dtype;
  const payload::DType type = Lowering::type_of(dtype), wide = is_floating(dtype) ? type : payload::DType_INT32;
  return in.cast(in.binary(kOp, in.cast(x[0], wide), in.cast(x[1], wide)), type);
}

/// The comparison with the operands the other way round.
template <payload::Op kOp>
TensorId swapped(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.binary(kOp, x[1], x[0]);
}

TensorId not_equal(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.unary(payload::Op_LOGICAL_NOT, in.binary(payload::Op_EQUAL, x[0], x[1]));
}

TensorId is_nan(Arithmetic& in, const Ids& x, const ir::Node& node) { return not_equal(in, {x[0], x[0]}, node); }

double number(const ir::Node& node, size_t i) { return *number_of(node.args()[i]); }

TensorId add(Arithmetic& in, const Ids& x, const ir::Node& node) {
  return in.add(x[0], in.scaled(x[1], number(node, 2)));
}
TensorId sub(Arithmetic& in, const Ids& x, const ir::Node& node) {
  return in.sub(x[0], in.scaled(x[1], number(node, 2)));
}
TensorId reversed_sub(Arithmetic& in, const Ids& x, const ir::Node& node) {
  return in.sub(x[1], in.scaled(x[0], number(node, 2)));
}
TensorId mul(Arithmetic& in, const Ids& x, const ir::Node&) { return in.mul(x[0], x[1]); }

TensorId divide(Arithmetic& in, TensorId a, TensorId b) { return in.mul(a, in.unary(payload::Op_RECIPROCAL, b)); }
TensorId div(Arithmetic& in, const Ids& x, const ir::Node&) { return divide(in, x[0], x[1]); }

TensorId positive(Arithmetic& in, TensorId x) { return in.binary(payload::Op_GREATER, x, in.real(x, 0)); }

TensorId truncated(Arithmetic& in, TensorId x) {
  return in.select(positive(in, x), in.unary(payload::Op_FLOOR, x), in.unary(payload::Op_CEIL, x));
}
TensorId trunc(Arithmetic& in, const Ids& x, const ir::Node&) { return truncated(in, x[0]); }

TensorId rounded_div(Arithmetic& in, const Ids& x, const ir::Node& node) {
  const TensorId quotient = divide(in, x[0], x[1]);
  const auto* mode = node.args()[ops::arguments::div_Tensor_mode::kRoundingMode].as<std::string>();
  return mode == nullptr    ? quotient
         : *mode == "floor" ? in.unary(payload::Op_FLOOR, quotient)
                            : truncated(in, quotient);
}

TensorId with_product(Arithmetic& in, const Ids& x, const ir::Node& node) {
  return in.add(x[0], in.scaled(in.mul(x[1], x[2]), number(node, 3)));
}
TensorId with_quotient(Arithmetic& in, const Ids& x, const ir::Node& node) {
  return in.add(x[0], in.scaled(divide(in, x[1], x[2]), number(node, 3)));
}
TensorId between(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.add(x[0], in.mul(x[2], in.sub(x[1], x[0])));
}

TensorId root(Arithmetic& in, TensorId x) { return in.unary(payload::Op_RECIPROCAL, in.unary(payload::Op_RSQRT, x)); }
TensorId sqrt(Arithmetic& in, const Ids& x, const ir::Node&) { return root(in, x[0]); }
TensorId square(Arithmetic& in, const Ids& x, const ir::Node&) { return in.mul(x[0], x[0]); }

TensorId power(Arithmetic& in, const Ids& x, const ir::Node& node) {
  const double exponent = number(node, 1);
  if (exponent == 1) {
    return x[0];
  }
  if (exponent == 2 || exponent == 3) {
    const TensorId twice = in.mul(x[0], x[0]);
    return exponent == 2 ? twice : in.mul(twice, x[0]);
  }
  if (exponent == 0.5) {
    return root(in, x[0]);
  }
  if (exponent == -0.5 || exponent == -1) {
    return in.unary(exponent == -1 ? payload::Op_RECIPROCAL : payload::Op_RSQRT, x[0]);
  }
  if (exponent != std::floor(exponent)) {
    return in.binary(payload::Op_POW, x[0], in.real(x[0], exponent));
  }
  // POW is defined for positive numbers only.
  const bool is_odd = std::fmod(exponent, 2) != 0;
  const TensorId even =
      in.binary(payload::Op_POW, in.unary(payload::Op_ABS, x[0]), in.real(x[0], is_odd ? exponent - 1 : exponent));
  return is_odd ? in.mul(x[0], even) : even;
}

/// exp(x) - 1, near 0 as 2 t / (1 - t) with t = tanh(x / 2), which keeps the digits that the difference would lose.
TensorId exp_less_one(Arithmetic& in, TensorId x) {
  const TensorId far = in.binary(payload::Op_GREATER, x, in.real(x, 1));
  const TensorId t = in.unary(payload::Op_TANH, in.scaled(in.clamp(x, -kInfinity, 1), 0.5));
  const TensorId near = divide(in, in.scaled(t, 2), in.sub(in.real(t, 1), t));
  return in.select(far, in.shifted(in.unary(payload::Op_EXP, x), -1), near);
}
TensorId expm1(Arithmetic& in, const Ids& x, const ir::Node&) { return exp_less_one(in, x[0]); }

/// log(1 + x); below 1 times what x has beyond the digits that the sum keeps.
TensorId log1p(Arithmetic& in, const Ids& x, const ir::Node&) {
  const TensorId sum = in.shifted(x[0], 1), far = in.unary(payload::Op_LOG, sum);
  const TensorId near = in.mul(far, divide(in, x[0], in.shifted(sum, -1)));
  const TensorId is_tiny = in.binary(payload::Op_EQUAL, sum, in.real(sum, 1));
  const TensorId is_far = in.binary(payload::Op_GREATER, x[0], in.real(sum, 1));
  return in.select(is_far, far, in.select(is_tiny, x[0], near));
}

TensorId exp2(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.unary(payload::Op_EXP, in.scaled(x[0], kLn2));
}
TensorId log2(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.scaled(in.unary(payload::Op_LOG, x[0]), 1 / kLn2);
}
TensorId log10(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.scaled(in.unary(payload::Op_LOG, x[0]), 1 / kLn10);
}
TensorId tan(Arithmetic& in, const Ids& x, const ir::Node&) {
  return divide(in, in.unary(payload::Op_SIN, x[0]), in.unary(payload::Op_COS, x[0]));
}
TensorId negate(Arithmetic& in, const Ids& x, const ir::Node&) { return in.negate(x[0]); }

TensorId relu(Arithmetic& in, const Ids& x, const ir::Node&) { return in.clamp(x[0], 0, kInfinity); }
TensorId clamp(Arithmetic& in, const Ids& x, const ir::Node& node) {
  const ops::Clamp call(node);
  const double high = number_of(call.max()).value_or(kInfinity);
  return in.clamp(x[0], std::min(number_of(call.min()).value_or(-kInfinity), high), high);
}
TensorId clamp_to_tensors(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.binary(payload::Op_MINIMUM, in.binary(payload::Op_MAXIMUM, x[0], x[1]), x[2]);
}

TensorId gelu(Arithmetic& in, const Ids& x, const ir::Node& node) {
  constexpr double kRoot = 0.7978845608028654;  // of 2 / pi
  const auto* approximate = ops::Gelu(node).approximate().as<std::string>();
  TensorId inner = kNoTensor;
  if (approximate != nullptr && *approximate == "tanh") {
    const TensorId cube = in.mul(in.mul(x[0], x[0]), x[0]);
    inner = in.unary(payload::Op_TANH, in.scaled(in.add(x[0], in.scaled(cube, 0.044715)), kRoot));
  } else {
    inner = in.unary(payload::Op_ERF, in.scaled(x[0], kSqrtHalf));
  }
  return in.mul(in.scaled(x[0], 0.5), in.shifted(inner, 1));
}

TensorId silu(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.mul(x[0], in.unary(payload::Op_SIGMOID, x[0]));
}
TensorId hardsigmoid(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.scaled(in.clamp(in.shifted(x[0], 3), 0, 6), 1.0 / 6);
}
TensorId hardswish(Arithmetic& in, const Ids& x, const ir::Node& node) {
  return in.mul(x[0], hardsigmoid(in, x, node));
}

TensorId elu(Arithmetic& in, const Ids& x, const ir::Node& node) {
  const ops::Elu call(node);
  const double alpha = *number_of(call.alpha()), scale = *number_of(call.scale());
  const TensorId below = in.scaled(in.clamp(x[0], -kInfinity, 0), *number_of(call.input_scale()));
  const TensorId curve = in.scaled(exp_less_one(in, below), alpha * scale);
  return in.select(positive(in, x[0]), in.scaled(x[0], scale), curve);
}

TensorId leaky_relu(Arithmetic& in, const Ids& x, const ir::Node& node) {
  return in.select(positive(in, x[0]), x[0], in.scaled(x[0], number(node, 1)));
}
TensorId prelu(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.select(positive(in, x[0]), x[0], in.mul(x[0], x[1]));
}

TensorId softened(Arithmetic& in, TensorId x, double beta, double threshold) {
  const TensorId steep = in.scaled(x, beta);
  const TensorId power_of = in.unary(payload::Op_EXP, in.clamp(steep, -kInfinity, threshold));
  const TensorId curve = in.scaled(in.unary(payload::Op_LOG, in.shifted(power_of, 1)), 1 / beta);
  return in.select(in.binary(payload::Op_GREATER, steep, in.real(x, threshold)), x, curve);
}
TensorId softplus(Arithmetic& in, const Ids& x, const ir::Node& node) {
  return softened(in, x[0], number(node, 1), number(node, 2));
}
TensorId mish(Arithmetic& in, const Ids& x, const ir::Node&) {
  return in.mul(x[0], in.unary(payload::Op_TANH, softened(in, x[0], 1, 20)));
}

TensorId where(Arithmetic& in, const Ids& x, const ir::Node&) { return in.select(x[0], x[1], x[2]); }
TensorId masked_fill(Arithmetic& in, const Ids& x, const ir::Node&) { return in.select(x[1], x[2], x[0]); }

TensorId converted(Arithmetic& in, const Ids& x, const ir::Node& node) {
  const payload::DType from = Lowering::type_of(node.args()[0].value()->type.tensor.dtype),
                       to = Lowering::type_of(node.result()->type.tensor.dtype);
  if (from != to && from == payload::DType_BOOL) {
    return in.select(x[0], in.real(x[0], to, 1), in.real(x[0], to, 0));
  }
  if (from != to && to == payload::DType_BOOL) {
    return not_equal(in, {x[0], in.real(x[0], 0)}, node);
  }
  return in.cast(x[0], to);
}

// ---- the table

template <Formula* kFormula, size_t kCount>
Error emit(Lowering& lowering, const ir::Node& node) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < kCount; ++i) {
    positions.push_back(i);
  }
  const Operands operands = operands_of(lowering, node, positions);
  Arithmetic in(lowering);
  lowering.set(node.result(), operands.form, kFormula(in, operands.ids, node));
  return Error::Ok;
}

template <Formula* kFormula, size_t kCount = 1>
constexpr OperatorRow row(std::string_view op, std::string_view becomes,
                          std::string (*refusal)(const Question&) = &floats<kCount>) {
  return {op, becomes, refusal, &emit<kFormula, kCount>};
}

constexpr OperatorRow kRows[] = {
    row<&unary<payload::Op_ABS>>(op::abs, "ABS"),
    row<&unary<payload::Op_CEIL>>(op::ceil, "CEIL"),
    row<&unary<payload::Op_COS>>(op::cos, "COS"),
    row<&unary<payload::Op_ERF>>(op::erf, "ERF"),
    row<&unary<payload::Op_EXP>>(op::exp, "EXP"),
    row<&unary<payload::Op_FLOOR>>(op::floor, "FLOOR"),
    row<&unary<payload::Op_LOG>>(op::log, "LOG"),
    row<&unary<payload::Op_RECIPROCAL>>(op::reciprocal, "RECIPROCAL"),
    row<&unary<payload::Op_RSQRT>>(op::rsqrt, "RSQRT"),
    row<&unary<payload::Op_SIGMOID>>(op::sigmoid, "SIGMOID"),
    row<&unary<payload::Op_SIN>>(op::sin, "SIN"),
    row<&unary<payload::Op_TANH>>(op::tanh, "TANH"),
    row<&negate>(op::neg, "NEGATE"),
    row<&sqrt>(op::sqrt, "RSQRT, RECIPROCAL"),
    row<&square>(op::square, "MUL"),
    row<&power>(op::pow_Tensor_Scalar, "MUL, RSQRT, RECIPROCAL or POW", &floats_and_number<1>),
    row<&exp2>(op::exp2, "MUL, EXP"),
    row<&expm1>(op::expm1, "TANH, EXP, SELECT"),
    row<&log1p>(op::log1p, "ADD, LOG, RECIPROCAL, MUL, SELECT"),
    row<&log2>(op::log2, "LOG, MUL"),
    row<&log10>(op::log10, "LOG, MUL"),
    row<&tan>(op::tan, "SIN, COS, RECIPROCAL, MUL"),
    row<&trunc>(op::trunc, "FLOOR, CEIL, SELECT"),
    row<&is_nan>(op::isnan, "EQUAL, LOGICAL_NOT"),
    row<&relu>(op::relu, "CLAMP"),
    row<&clamp>(op::hardtanh, "CLAMP", &bounds),
    row<&clamp>(op::clamp, "CLAMP", &bounds),
    row<&gelu>(op::gelu, "ERF or TANH, MUL, ADD"),
    row<&silu>(op::silu, "SIGMOID, MUL"),
    row<&hardsigmoid>(op::hardsigmoid, "ADD, CLAMP, MUL"),
    row<&hardswish>(op::hardswish, "ADD, CLAMP, MUL"),
    row<&elu>(op::elu, "TANH, EXP, SELECT", &numbers_behind),
    row<&leaky_relu>(op::leaky_relu, "MUL, SELECT", &numbers_behind),
    row<&prelu, 2>(op::_prelu_kernel, "MUL, SELECT"),
    row<&softplus>(op::softplus, "EXP, LOG, SELECT", &numbers_behind),
    row<&mish>(op::mish, "EXP, LOG, TANH, MUL"),
    row<&add, 2>(op::add_Tensor, "ADD", &floats_and_number<2>),
    row<&add, 2>(op::add_Scalar, "ADD", &floats_and_number<2>),
    row<&sub, 2>(op::sub_Tensor, "SUB", &floats_and_number<2>),
    row<&sub, 2>(op::sub_Scalar, "SUB", &floats_and_number<2>),
    row<&reversed_sub, 2>(op::rsub_Scalar, "SUB", &floats_and_number<2>),
    row<&mul, 2>(op::mul_Tensor, "MUL"),
    row<&mul, 2>(op::mul_Scalar, "MUL"),
    row<&div, 2>(op::div_Tensor, "RECIPROCAL, MUL"),
    row<&div, 2>(op::div_Scalar, "RECIPROCAL, MUL"),
    row<&rounded_div, 2>(op::div_Tensor_mode, "RECIPROCAL, MUL, FLOOR, CEIL", &division),
    row<&rounded_div, 2>(op::div_Scalar_mode, "RECIPROCAL, MUL, FLOOR, CEIL", &division),
    row<&with_product, 3>(op::addcmul, "MUL, ADD", &floats_and_number<3>),
    row<&with_quotient, 3>(op::addcdiv, "RECIPROCAL, MUL, ADD", &floats_and_number<3>),
    row<&between, 3>(op::lerp_Scalar, "SUB, MUL, ADD"),
    row<&between, 3>(op::lerp_Tensor, "SUB, MUL, ADD"),
    row<&extreme<payload::Op_MAXIMUM>, 2>(op::maximum, "MAXIMUM", &larger_of_two),
    row<&extreme<payload::Op_MINIMUM>, 2>(op::minimum, "MINIMUM", &larger_of_two),
    row<&clamp_to_tensors, 3>(op::clamp_Tensor, "MAXIMUM, MINIMUM"),
    row<&binary<payload::Op_POW>, 2>(op::pow_Tensor_Tensor, "POW"),
    row<&binary<payload::Op_POW>, 2>(op::pow_Scalar, "POW"),
    row<&binary<payload::Op_EQUAL>, 2>(op::eq_Tensor, "EQUAL"),
    row<&binary<payload::Op_EQUAL>, 2>(op::eq_Scalar, "EQUAL"),
    row<&not_equal, 2>(op::ne_Tensor, "EQUAL, LOGICAL_NOT"),
    row<&not_equal, 2>(op::ne_Scalar, "EQUAL, LOGICAL_NOT"),
    row<&binary<payload::Op_GREATER>, 2>(op::gt_Tensor, "GREATER"),
    row<&binary<payload::Op_GREATER>, 2>(op::gt_Scalar, "GREATER"),
    row<&binary<payload::Op_GREATER_EQUAL>, 2>(op::ge_Tensor, "GREATER_EQUAL"),
    row<&binary<payload::Op_GREATER_EQUAL>, 2>(op::ge_Scalar, "GREATER_EQUAL"),
    row<&swapped<payload::Op_GREATER>, 2>(op::lt_Tensor, "GREATER"),
    row<&swapped<payload::Op_GREATER>, 2>(op::lt_Scalar, "GREATER"),
    row<&swapped<payload::Op_GREATER_EQUAL>, 2>(op::le_Tensor, "GREATER_EQUAL"),
    row<&swapped<payload::Op_GREATER_EQUAL>, 2>(op::le_Scalar, "GREATER_EQUAL"),
    row<&binary<payload::Op_LOGICAL_AND>, 2>(op::logical_and, "LOGICAL_AND", &bools<2>),
    row<&binary<payload::Op_LOGICAL_OR>, 2>(op::logical_or, "LOGICAL_OR", &bools<2>),
    row<&binary<payload::Op_LOGICAL_XOR>, 2>(op::logical_xor, "LOGICAL_XOR", &bools<2>),
    row<&binary<payload::Op_LOGICAL_AND>, 2>(op::bitwise_and_Tensor, "LOGICAL_AND", &bools<2>),
    row<&binary<payload::Op_LOGICAL_OR>, 2>(op::bitwise_or_Tensor, "LOGICAL_OR", &bools<2>),
    row<&binary<payload::Op_LOGICAL_XOR>, 2>(op::bitwise_xor_Tensor, "LOGICAL_XOR", &bools<2>),
    row<&unary<payload::Op_LOGICAL_NOT>>(op::logical_not, "LOGICAL_NOT", &bools<1>),
    row<&unary<payload::Op_LOGICAL_NOT>>(op::bitwise_not, "LOGICAL_NOT", &bools<1>),
    row<&where, 3>(op::where_self, "SELECT", &choice),
    row<&masked_fill, 3>(op::masked_fill_Scalar, "SELECT", &filling),
    row<&converted>(op::_to_copy, "CAST, SELECT or EQUAL", &conversion),
    row<&converted>(op::dim_order_ops_to_dim_order_copy, "CAST, SELECT or EQUAL", &conversion),
};

}  // namespace

Span<const OperatorRow> float_elementwise_operators() { return kRows; }

}  // namespace et::backends::tosa::compiler
