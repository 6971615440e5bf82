#include "passes/compress_sparse_weights.h"

#include <algorithm>

#include "ir/op_views.h"
#include "numerics/sparse_weight.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// Smaller weights cost more in headers and calls than their zeros do.
constexpr int64_t kLeastElements = 256;

/// The weight of a node that has a sparse form, which is argument 1; nullptr for other nodes.
const ir::Value* weight_of(const ir::Node& node) {
  const bool is_linear = is_one_of(node.op, {op::linear, op::et_linear_clamp});
  const bool is_convolution = is_one_of(node.op, {op::convolution, op::et_convolution_clamp});
  if (!is_linear && !is_convolution) {
    return nullptr;
  }
  const ops::Convolution layer(node);  // linear has the first three arguments, too
  const ir::Value* weight = layer.weight().value();
  if (weight == nullptr || !weight->type.is_tensor() || layer.input().value() == weight ||
      layer.bias().value() == weight) {
    return nullptr;
  }
  const size_t rank = weight->type.tensor.rank();
  const bool fits = is_linear ? rank == 2 : rank >= 3 && rank <= 5 && int_of(layer.transposed()) == 0;
  return fits ? weight : nullptr;
}

/// The float constant behind a weight that only nodes with a sparse form use; nullptr otherwise.
const ir::Constant* sparse_candidate(const ir::Program& program, const ir::Graph& graph, const ir::Value& weight) {
  const ir::Constant* constant = weight.graph() == &graph ? constant_of(program, &weight) : nullptr;
  if (constant == nullptr || !constant->external_key.empty() || constant->type.dtype != ScalarType::Float ||
      !constant->type.is_row_major() || constant->type.max_nbytes() / 4 < kLeastElements || graph.is_output(&weight)) {
    return nullptr;
  }
  if (weight.users().empty()) {
    return nullptr;
  }
  const bool all = std::all_of(weight.users().begin(), weight.users().end(), [&](const ir::Node* user) {
    return user->graph() == &graph && weight_of(*user) == &weight;
  });
  return all ? constant : nullptr;
}

/// How many of the elements are zero, when these are `least` or more; fewer than `least` otherwise, which is seen
/// early.
int64_t count_zeros(const float* data, int64_t elements, double least) {
  constexpr int64_t kAtOnce = 4096;
  int64_t zeros = elements;
  for (int64_t i = 0; i < elements && static_cast<double>(zeros) >= least; i += kAtOnce) {
    const int64_t count = std::min(kAtOnce, elements - i);
    zeros -= count - std::count(data + i, data + i + count, 0.0f);
  }
  return zeros;
}

struct Compressed {
  ir::Value* values;
  ir::Value* mask;
};

Compressed compress(PassContext& context, ir::Graph& graph, const ir::Value& weight, const ir::Constant& constant,
                    size_t num_values, ir::Node* before) {
  const auto rows = static_cast<size_t>(constant.type.dims[0].min);
  const auto columns = static_cast<size_t>(constant.type.max_nbytes()) / sizeof(float) / rows;
  const size_t words = sparse_words(columns);
  ir::TensorType values_type = constant.type;
  values_type.dims = {static_cast<int64_t>(num_values)};
  values_type.dim_order = {0};
  ir::TensorType mask_type = constant.type;
  mask_type.dtype = ScalarType::Long;
  mask_type.dims = {static_cast<int64_t>(rows), static_cast<int64_t>(words)};
  mask_type.dim_order = {0, 1};
  float* value = nullptr;
  uint64_t* mask = nullptr;
  ir::Constant values = new_constant(std::move(values_type), &value);
  ir::Constant bits = new_constant(std::move(mask_type), &mask);
  const auto* const from = static_cast<const float*>(constant.data);
  for (size_t i = 0; i < rows * columns; ++i) {
    if (from[i] != 0.0f) {
      mask[i / columns * words + i % columns / 64] |= uint64_t{1} << i % columns % 64;
      *value++ = from[i];
    }
  }
  return {add_constant(context.program, graph, weight.name + "_values", std::move(values), before),
          add_constant(context.program, graph, weight.name + "_mask", std::move(bits), before)};
}

/// The sparse form of `node`; its clamp's bounds are none where it has no clamp.
void replace(ir::Node* node, const Compressed& compressed, const ir::TensorType& weight) {
  const auto& args = node->args();
  const bool has_clamp = node->op == op::et_linear_clamp || node->op == op::et_convolution_clamp;
  ir::Argument::List size;
  for (const ir::Dim& dim : weight.dims) {
    size.push_back({dim.min});
  }
  const ops::Linear product(*node);  // of which a convolution has the first arguments
  std::vector<ir::Argument> sparse{
      product.input(), {compressed.values}, {compressed.mask}, product.bias(), {std::move(size)}};
  const bool is_convolution = args.size() >= 9;
  if (is_convolution) {
    const ops::Convolution call(*node);
    sparse.insert(sparse.end(), {call.stride(), call.padding(), call.dilation(), call.groups()});
  }
  sparse.push_back(has_clamp ? args[args.size() - 2] : ir::Argument{});
  sparse.push_back(has_clamp ? args[args.size() - 1] : ir::Argument{});
  ir::Node* created =
      create_like(*node, is_convolution ? op::et_sparse_convolution : op::et_sparse_linear, std::move(sparse));
  created->add_result(node->result()->name, node->result()->type);
  replace_node(node, created);
}

}  // namespace

PassInfo CompressSparseWeights::info() const {
  return PassInfo::extension("compress-sparse-weights", "Stores weights that are mostly zero without their zeros");
}

Result<Changed> CompressSparseWeights::run(ir::Graph& graph, PassContext& context) {
  // Found before anything changes: the users of one weight are replaced together.
  std::vector<ir::Value*> weights;
  for (const auto& node : graph.nodes()) {
    if (node->op == "constant" && sparse_candidate(context.program, graph, *node->result()) != nullptr) {
      weights.push_back(node->result());
    }
  }
  Changed changed = Changed::kNo;
  for (ir::Value* weight : weights) {
    const ir::Constant& constant = *constant_of(context.program, weight);
    const auto* const data = static_cast<const float*>(constant.data);
    const auto elements = constant.type.max_nbytes() / static_cast<int64_t>(sizeof(float));
    const double least = context.options.sparse_weights * static_cast<double>(elements);
    const int64_t zeros = count_zeros(data, elements, least);
    if (static_cast<double>(zeros) < least) {
      continue;
    }
    ir::Node* const source = weight->producer();
    const Compressed compressed =
        compress(context, graph, *weight, constant, static_cast<size_t>(elements - zeros), source);
    const std::vector<ir::Node*> users = weight->users();
    for (ir::Node* user : users) {
      replace(user, compressed, weight->type.tensor);
    }
    graph.erase(source);
    changed = Changed::kYes;
  }
  return changed;
}

}  // namespace et::passes
