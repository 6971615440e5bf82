#include "passes/work.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ir/op_views.h"
#include "ops/names.h"
#include "ops/op_table.h"
#include "passes/quantized_values.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

using ops::Work;
using ops::WorkKind;

const ir::TensorType& type(const ir::Argument& argument) { return argument.value()->type.tensor; }
double elements(const ir::TensorType& tensor) { return static_cast<double>(tensor.max_numel()); }
double size(const ir::TensorType& tensor, size_t dim) { return static_cast<double>(tensor.dims[dim].max); }

bool is_tensor(const ir::Argument& argument) {
  return argument.value() != nullptr && argument.value()->type.is_tensor();
}

bool is_constant(const ir::Value& value) { return value.producer() != nullptr && value.producer()->op == "constant"; }

bool all_are(const ir::Argument& list, int64_t number) {
  const auto items = ints_of(list);
  return items && std::all_of(items->begin(), items->end(), [number](int64_t item) { return item == number; });
}

std::optional<Work> convolution_work(const ops::Convolution& convolution, const ir::TensorType& result) {
  if (!is_tensor(convolution.input()) || !is_tensor(convolution.weight()) || type(convolution.weight()).rank() < 3) {
    return std::nullopt;
  }
  std::vector<int64_t> weight;
  for (const auto& dim : type(convolution.weight()).dims) {
    weight.push_back(dim.max);
  }
  const std::vector<int64_t> stride = ints_of(convolution.stride()).value_or(std::vector<int64_t>{});
  return ops::work_of({{weight.data(), weight.size()},
                       int_of(convolution.groups()).value_or(1),
                       int_of(convolution.transposed()).value_or(0) != 0,
                       all_are(convolution.stride(), 1) && all_are(convolution.dilation(), 1),
                       ops::windows_overlap({weight.data(), weight.size()}, {stride.data(), stride.size()}),
                       elements(type(convolution.input())),
                       elements(result)});
}

/// Of a product of `left`, as long as the sums are, that gives `result`.
Work product_work(const ir::Argument& left, const ir::TensorType& result, bool has_weight) {
  const double columns = std::max(size(result, result.rank() - 1), 1.0),
               depth = size(type(left), type(left).rank() - 1);
  if (has_weight || result.rank() < 2) {
    return ops::work_of_product(elements(result) / columns, columns, depth);
  }
  const double rows = std::max(size(result, result.rank() - 2), 1.0);
  return ops::work_of_matmul({elements(result) / columns / rows, rows, columns, depth});
}

/// A constant, or what operators of one tensor make of one: a transposed or a dequantized weight.
bool is_weight(const ir::Argument& argument) {
  const ir::Value* value = argument.value();
  while (value != nullptr && value->producer() != nullptr && !is_constant(*value)) {
    const ir::Value* only = nullptr;
    size_t count = 0;
    value->producer()->for_each_input([&](const ir::Value* input) {
      if (input->type.is_tensor() && !is_constant(*input)) {
        only = input;
        ++count;
      }
    });
    if (count == 0) {
      return true;
    }
    value = count == 1 ? only : nullptr;
  }
  return value != nullptr && value->producer() != nullptr;
}

/// What an operator works on: the first argument, of addmm the left matrix.
const ir::Argument& left_of(const ir::Node& node) {
  return node.op == op::addmm ? ops::Addmm(node).mat1() : ops::Mm(node).self();
}

ops::WorkNumbers numbers_of(const ir::Argument& left) {
  const bool is_int8 = producer_if(left, {kDequantizePerTensor}) != nullptr;
  const bool is_dynamic = producer_if(left, {op::quantized_decomposed_dequantize_per_tensor_tensor,
                                             op::quantized_decomposed_dequantize_per_token}) != nullptr;
  return is_int8 ? ops::WorkNumbers::int8 : is_dynamic ? ops::WorkNumbers::dynamic : ops::WorkNumbers::floating;
}

std::optional<Work> any_work(const ir::Node& node) {
  if (node.results().empty() || !node.results()[0]->type.is_tensor() || !node.results()[0]->type.tensor.is_bounded()) {
    return std::nullopt;
  }
  const ir::TensorType& result = node.results()[0]->type.tensor;
  if (node.op == op::convolution) {
    return convolution_work(ops::Convolution(node), result);
  }
  if (is_one_of(node.op, {op::linear, op::addmm, op::mm, op::bmm}) && result.rank() > 0 && is_tensor(left_of(node))) {
    const ir::Argument& right = node.op == op::addmm ? ops::Addmm(node).mat2() : ops::Mm(node).mat2();
    return product_work(left_of(node), result, node.op != op::bmm && is_weight(right));
  }
  if (node.op == op::mean_dim && is_tensor(left_of(node))) {
    return Work{WorkKind::elementwise, ops::WorkNumbers::floating, elements(type(left_of(node)))};
  }
  return work_of(node.op, result);
}

}  // namespace

std::optional<Work> work_of(std::string_view op, const ir::TensorType& result) {
  const ops::OpInfo* const info = ops::find_op(op);
  return info == nullptr || !info->work
             ? std::nullopt
             : std::optional<Work>({*info->work, ops::WorkNumbers::floating, elements(result)});
}

std::optional<Work> work_of(const ir::Node& node) {
  std::optional<Work> work = any_work(node);
  if (work) {
    work->numbers = numbers_of(left_of(node));
  }
  return work;
}

}  // namespace et::passes
