#include "passes/fold_quantize_dequantize.h"

#include <algorithm>
#include <limits>

#include "ops/names.h"
#include "passes/propagate_dequantize.h"
#include "passes/quantized_values.h"

namespace et::passes {
namespace {

/// quantize, dequantize, number of parameters after the tensor: scale, zero point, (axis,) quant_min, quant_max, dtype.
struct Pair {
  std::string_view quantize;
  std::string_view dequantize;
  size_t num_parameters;
};
constexpr Pair kPairs[] = {
    {op::quantized_decomposed_quantize_per_tensor, op::quantized_decomposed_dequantize_per_tensor, 5},
    {op::quantized_decomposed_quantize_per_tensor_tensor, op::quantized_decomposed_dequantize_per_tensor_tensor, 5},
    {op::quantized_decomposed_quantize_per_channel, op::quantized_decomposed_dequantize_per_channel, 6},
};

bool same_parameters(const ir::Node& a, const ir::Node& b, size_t count) {
  if (a.args().size() <= count || b.args().size() <= count) {
    return false;
  }
  for (size_t i = 1; i <= count; ++i) {
    if (!(a.args()[i] == b.args()[i])) {
      return false;
    }
  }
  return true;
}

template <typename T>
bool is_range_of(int64_t low, int64_t high) {
  return low == std::numeric_limits<T>::min() && high == std::numeric_limits<T>::max();
}

bool is_whole_range(ScalarType dtype, const ir::Argument& quant_min, const ir::Argument& quant_max) {
  const auto low = int_of(quant_min);
  const auto high = int_of(quant_max);
  if (!low || !high) {
    return false;
  }
  switch (dtype) {
    case ScalarType::Byte: return is_range_of<uint8_t>(*low, *high);
    case ScalarType::Char: return is_range_of<int8_t>(*low, *high);
    case ScalarType::Short: return is_range_of<int16_t>(*low, *high);
    case ScalarType::UInt16: return is_range_of<uint16_t>(*low, *high);
    case ScalarType::Int: return is_range_of<int32_t>(*low, *high);
    default: return false;
  }
}

/// Whether integers come from quantize nodes with these parameters only, moved about or not.
bool come_from(const ir::Value* integers, const ir::Node& quantize, const Pair& pair) {
  const ir::Node* origin = integers == nullptr ? nullptr : integers->producer();
  if (origin == nullptr) {
    return false;
  }
  if (origin->op == pair.quantize) {
    return same_parameters(*origin, quantize, pair.num_parameters);
  }
  const std::vector<const ir::Argument*> sources = elements_of(*origin);
  if (sources.empty() || pair.num_parameters != 5) {
    return false;  // moved channels would have other scales
  }
  const auto fits = [&](const ir::Argument& element) {
    const auto number = int_of(element), low = int_of(Quantize(quantize).quant_min()),
               high = int_of(Quantize(quantize).quant_max());
    return element.is_value() ? come_from(element.value(), quantize, pair)
                              : number && low && high && *low <= *number && *number <= *high;
  };
  return std::all_of(sources.begin(), sources.end(), [&](const ir::Argument* source) {
    const auto* parts = source->as<ir::Argument::List>();
    return parts == nullptr ? fits(*source) : std::all_of(parts->begin(), parts->end(), fits);
  });
}

/// The integers that `quantize` would give again; nullptr when it may give others.
ir::Value* integers_behind(const ir::Node& quantize, const Pair& pair) {
  const ir::Node* dequantize = producer_if(Quantize(quantize).input(), {pair.dequantize});
  if (dequantize == nullptr || dequantize->tag != quantize.tag ||
      !same_parameters(quantize, *dequantize, pair.num_parameters)) {
    return nullptr;
  }
  ir::Value* integers = Dequantize(*dequantize).input().value();
  if (integers == nullptr || integers->type.tensor != quantize.result()->type.tensor) {
    return nullptr;
  }
  const bool in_range = come_from(integers, quantize, pair);
  const size_t last = pair.num_parameters;  // dtype; before it quant_max, quant_min
  return in_range || is_whole_range(integers->type.tensor.dtype, quantize.args()[last - 2], quantize.args()[last - 1])
             ? integers
             : nullptr;
}

}  // namespace

PassInfo FoldQuantizeDequantize::info() const {
  return {"fold-quantize-dequantize", "Removes what dequantizes only to quantize again"};
}

Result<Changed> FoldQuantizeDequantize::run(ir::Graph& graph, PassContext&) {
  return rewrite_each(graph, [&graph](ir::Node* node) {
    for (const Pair& pair : kPairs) {
      ir::Value* integers = node->op == pair.quantize ? integers_behind(*node, pair) : nullptr;
      if (integers == nullptr || (graph.is_output(node->result()) && is_external(integers))) {
        continue;
      }
      ir::Node* dequantize = Quantize(*node).input().value()->producer();
      graph.replace_all_uses(node->result(), integers);
      graph.erase(node);
      if (dequantize->graph()->is_unused(dequantize->result())) {
        dequantize->graph()->erase(dequantize);
      }
      return true;
    }
    return false;
  });
}

}  // namespace et::passes
