/// Which products with integer weights the delegate takes. The products share what quantizes their inputs at run time,
/// so that one of them is taken only where all of them are.
#include <algorithm>
#include <cmath>

#include "ir/op_views.h"
#include "ops/names.h"
#include "ops/op_table.h"
#include "passes/clamps.h"
#include "passes/quantized_values.h"

#include "backends/xnnpack/compiler/quantization.h"

namespace et::backends::xnnpack {
namespace {

using passes::int_of;
using passes::is_one_of;
using passes::number_of;

/// Of a requantization, by the library.
constexpr float kLargestFactor = 256.0F;
constexpr std::string_view kQuantize = op::quantized_decomposed_quantize_per_tensor;

double scale_of(const ir::Node& quantize) {
  return *number_of(ops::QuantizedDecomposedQuantizePerTensor(quantize).scale());
}

/// Clamps that the delegate takes.
bool is_clamp(const ir::Node& node) { return passes::is_clamp(node) && find_operator(node.op) != nullptr; }

/// Of a linear layer or a convolution: both begin with input, weight and bias.
using Product = ops::Linear;

std::vector<double> bias_numbers(const Question& q) {
  return bias_of_product(q.program, Product(q.node).bias()).value_or(std::vector<double>());
}

/// Whether the library can bring sums back to 8 bits, and the bias fits beside them.
std::string scale_refusal(const Question& q, const IntegerWeight& weight, double in, double out) {
  const double largest = *std::max_element(weight.scales.begin(), weight.scales.end());
  if (static_cast<float>(in * largest / out) >= kLargestFactor) {
    return "results that are far smaller than its sums";
  }
  const std::vector<double> values = bias_numbers(q);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i]) > passes::kLargestBias * in * weight.scales[weight.scales.size() == 1 ? 0 : i]) {
      return "a bias that does not fit 32 bits beside such small weights";
    }
  }
  return "";
}

/// The library adds the bias to the sums of integers and scales both, so that it is written divided by the scales. Why
/// it does not take a product of floats with an integer weight.
std::string weight_only_refusal(const Question& q, const IntegerWeight& weight) {
  const auto type = weight.spec.datatype;
  if (!q.options.weight_only) {
    return "integer weights with an input that is not quantized";
  }
  if (q.node.op != op::linear) {
    return "a convolution of floats with integer weights";
  }
  if (type != payload::Datatype_qcint8 && type != payload::Datatype_qcint4) {
    return "a product of floats with integer weights whose scales are not those of output channels";
  }
  if (type_of(Product(q.node).input())->dtype != ScalarType::Float) {
    return "a product of other floats than float32 with integer weights";
  }
  const std::vector<double> values = bias_numbers(q);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!fits_scaled(values[i], weight.scales[i])) {
      return "a bias that is too large beside such small weights";
    }
  }
  return "";
}

/// What speaks against a product by itself.
std::string refusal_alone(const Question& q) {
  const Product call(q.node);
  const std::optional<IntegerWeight> read = read_weight(q.program, call.weight().value());
  if (!read) {
    return "an integer weight whose scales the library has not (zero points, groups that are no multiple of 32)";
  }
  const bool is_linear = q.node.op == op::linear;
  const auto type = read->spec.datatype;
  const bool is_4_bit = type == payload::Datatype_qcint4 || type == payload::Datatype_qbint4;
  if (is_4_bit && (!is_linear || read->spec.dims[1] % 2 != 0)) {
    return "4-bit weights outside of linear, or an odd number of them in a row";
  }
  if (is_linear && read->spec.dims.size() != 2) {
    return "its weight is no matrix";
  }
  const bool transposed = !is_linear && int_of(ops::Convolution(q.node).transposed()).value_or(0) != 0;
  const int64_t groups = is_linear ? 1 : int_of(ops::Convolution(q.node).groups()).value_or(1);
  if (type == payload::Datatype_qcint8 && read->axis != (transposed ? 1u : 0u)) {
    return "scales that are not those of output channels";
  }
  if (transposed && groups != 1 && type == payload::Datatype_qcint8) {
    return "a transposed convolution in groups with scales a channel";
  }
  if (!call.bias().is_none() && !is_constant(call.bias()) && !is_quantized_weight(call.bias().value())) {
    return "its bias is not constant";
  }
  switch (input_kind(call.input().value())) {
    case InputKind::kFloat: return weight_only_refusal(q, *read);
    case InputKind::kStatic: {
      const ir::Node* last = &last_clamp(q.node);
      if (last->result()->users().size() != 1 || last->result()->users().front()->op != kQuantize || is_4_bit) {
        return "a quantized input but a result that is not quantized";
      }
      const ir::Node &from = *call.input().value()->producer(), &to = *last->result()->users().front();
      const std::string why = static_refusal({from, q.program, q.options});
      const std::string behind = why.empty() ? static_refusal({to, q.program, q.options}) : why;
      return behind.empty() ? scale_refusal(q, *read, scale_of(from), scale_of(to)) : behind;
    }
    case InputKind::kDynamic:
      if (!q.options.dynamic_quant) {
        return "dynamic quantization, which the partitioner was told to leave";
      }
      if (is_linear) {
        return type != payload::Datatype_qint8 ? "" : "dynamic quantization with one scale for the whole weight";
      }
      return type == payload::Datatype_qcint8 && groups == 1 ? "" : "dynamic quantization of this convolution";
  }
  return "";
}

}  // namespace

const ir::Node& last_clamp(const ir::Node& node) {
  const ir::Node* last = &node;
  while (last->result()->users().size() == 1 && is_clamp(*last->result()->users().front())) {
    last = last->result()->users().front();
  }
  return *last;
}

bool computes_on_integers(const ir::Node& node) {
  const ir::Node* first = &node;
  while (is_clamp(*first) && first->args()[0].value()->producer() != nullptr &&
         input_kind(first->args()[0].value()) == InputKind::kFloat) {
    first = first->args()[0].value()->producer();
  }
  if (is_one_of(first->op, {op::linear, op::convolution})) {
    return is_quantized_weight(Product(*first).weight().value()) &&
           input_kind(first->args()[0].value()) != InputKind::kFloat;
  }
  bool any = false, all = true;
  first->for_each_input([&](const ir::Value* input) {
    any = any || input_kind(input) == InputKind::kStatic;
    all = all && (input_kind(input) == InputKind::kStatic || is_foldable(input) || !input->type.is_tensor());
  });
  const auto is_quantized = [](const ir::Value* value) {
    const auto& users = value->users();
    return !users.empty() && std::all_of(users.begin(), users.end(), [](const ir::Node* user) {
      return user->op == kQuantize || (is_clamp(*user) && last_clamp(*user).result()->users().size() == 1 &&
                                       last_clamp(*user).result()->users().front()->op == kQuantize);
    });
  };
  return any && all && std::all_of(node.results().begin(), node.results().end(), [&](const auto& result) {
           return is_quantized(result.get());
         });
}

bool feeds_products_only(const ir::Value* value, const Question& question) {
  if (value->users().empty() || value->graph()->is_output(value)) {
    return false;
  }
  return std::all_of(value->users().begin(), value->users().end(), [&](const ir::Node* user) {
    if (passes::is_run_time_conversion(user->op) && !ops::has_tag(user->op, ops::kReduction)) {  // no choice of scales
      return feeds_products_only(user->result(), question);
    }
    const bool is_product = is_one_of(user->op, {op::linear, op::convolution});
    return is_product && Product(*user).input().value() == value &&
           is_quantized_weight(Product(*user).weight().value()) &&
           refusal_alone({*user, question.program, question.options}).empty();
  });
}

std::string quantized_product_refusal(const Question& q) {
  std::string why = refusal_alone(q);
  const ir::Value* input = Product(q.node).input().value();
  if (why.empty() && input_kind(input) == InputKind::kDynamic) {
    const ir::Node* quantize = input->producer()->args()[0].value()->producer();
    const ir::Node* choose = ops::QuantizedDecomposedQuantizePerTensorTensor(*quantize).scale().value()->producer();
    for (const auto& result : choose->results()) {
      if (!feeds_products_only(result.get(), q)) {
        return "its input is quantized at run time together with that of something that is not taken";
      }
    }
  }
  return why;
}

}  // namespace et::backends::xnnpack
