#include "passes/fuse_linear.h"

#include <algorithm>

#include "ir/pattern.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

const ir::Pattern kProduct = "y = mm(input, weight) | addmm(bias, input, weight)";
const ir::Pattern kTransposed =
    "y = permute(weight, [1, 0]) | t(weight) | transpose(weight, 0, 1) | transpose(weight, 1, 0)";

/// A product whose bias is a vector: addmm also takes what broadcasts to a matrix.
std::optional<ir::Match> product_of(ir::Node& node, const ir::Program& program) {
  return kProduct.match(node, program, [&](const ir::Match& m) {
    const ir::Value* bias = m.value("bias");
    return bias == nullptr ||
           (bias->type.tensor.rank() == 1 && bias->type.tensor.dims[0] == node.result()->type.tensor.dims.back());
  });
}

/// A constant that only products use as their right factor.
bool is_weight_only(const ir::Program& program, const ir::Value* weight) {
  if (constant_of(program, weight) == nullptr || weight->graph()->is_output(weight)) {
    return false;
  }
  return std::all_of(weight->users().begin(), weight->users().end(), [&](ir::Node* user) {
    const std::optional<ir::Match> product = product_of(*user, program);
    return product && product->value("weight") == weight && product->value("input") != weight;
  });
}

ir::Value* transposed(ir::Node& user, ir::Value* weight) {
  ir::TensorType type = weight->type.tensor;
  std::swap(type.dims[0], type.dims[1]);
  ir::Node* node = create_like(user, op::permute_copy, {{weight}, {ir::Argument::List{{int64_t{1}}, {int64_t{0}}}}});
  return node->add_result(weight->name + "_transposed", ir::Type::of(std::move(type)));
}

}  // namespace

PassInfo FuseLinear::info() const { return {"fuse-linear", "Writes products with weights as aten::linear"}; }

Result<Changed> FuseLinear::run(ir::Graph& graph, PassContext& context) {
  Changed changed = Changed::kNo;
  // Checked before anything changes, since a rewritten product is no product any more.
  std::vector<std::pair<ir::Node*, bool>> products;
  for (const auto& node : graph.nodes()) {
    if (const std::optional<ir::Match> product = product_of(*node, context.program)) {
      const ir::Value* weight = product->value("weight");
      const bool foldable =
          context.evaluator != nullptr && weight->graph() == &graph && is_weight_only(context.program, weight);
      products.emplace_back(node.get(), foldable);
    }
  }
  for (const auto& [node, foldable] : products) {
    const ir::Match product = *product_of(*node, context.program);
    const auto is_of_matrix = [tag = node->tag](const ir::Match& m) {
      return m.root()->tag == tag && m.root()->result()->type.tensor.rank() == 2;
    };
    const auto transposition = kTransposed.match_producer(product["weight"], context.program, is_of_matrix);
    ir::Node* transpose = transposition ? transposition->root() : nullptr;
    ir::Argument weight;
    if (transpose != nullptr) {
      weight = (*transposition)["weight"];
    } else if (foldable) {
      weight.data = transposed(*node, product.value("weight"));
    } else {
      continue;
    }
    ir::Node* linear = create_like(*node, op::linear, {product["input"], weight, product["bias"]});
    linear->add_result(node->result()->name, node->result()->type);
    if (transpose != nullptr && is_only_use(transpose->result(), node)) {
      linear->absorb(*transpose);
    }
    replace_node(node, linear);
    if (transpose != nullptr && transpose->graph()->is_unused(transpose->result())) {
      transpose->graph()->erase(transpose);
    }
    changed = Changed::kYes;
  }
  return changed;
}

}  // namespace et::passes
