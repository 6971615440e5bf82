#include "passes/fuse_linear.h"

#include <algorithm>

#include "ir/op_views.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// input @ weight + bias
struct Product {
  ir::Argument input;
  ir::Argument weight;  ///< [in, out]
  ir::Argument bias;
};

std::optional<Product> product_of(const ir::Node& node) {
  if (node.op == op::mm) {
    return Product{ops::Mm(node).self(), ops::Mm(node).mat2(), {}};
  }
  if (node.op == op::addmm) {
    const ops::Addmm product(node);
    const ir::Value* bias = product.self().value();
    const bool plain = number_of(product.beta()) == 1.0 && number_of(product.alpha()) == 1.0;
    // linear adds a vector; addmm also takes what broadcasts to a matrix.
    if (plain && bias != nullptr && bias->type.tensor.rank() == 1 &&
        bias->type.tensor.dims[0] == node.result()->type.tensor.dims.back()) {
      return Product{product.mat1(), product.mat2(), product.self()};
    }
  }
  return std::nullopt;
}

/// What `weight` is the transpose of, with the same tag as `user`; nullptr otherwise.
ir::Node* transpose_behind(const ir::Argument& weight, const ir::Node& user) {
  ir::Node* node = producer_if(
      weight, {op::permute, op::permute_copy, op::t, op::t_copy, op::transpose_int, op::transpose_copy_int});
  if (node == nullptr || node->tag != user.tag || node->result()->type.tensor.rank() != 2) {
    return nullptr;
  }
  if (node->args().size() == 1) {
    return node;  // t
  }
  if (node->args().size() == 2) {
    const auto dims = ints_of(node->args()[1]);
    return dims && (dims->at(0) + 2) % 2 == 1 && (dims->at(1) + 2) % 2 == 0 ? node : nullptr;
  }
  const auto first = int_of(node->args()[1]);
  const auto second = int_of(node->args()[2]);
  return first && second && (*first + 2) % 2 != (*second + 2) % 2 ? node : nullptr;
}

/// A constant that only products use as their right factor.
bool is_weight_only(const ir::Program& program, const ir::Value* weight) {
  if (constant_of(program, weight) == nullptr || weight->graph()->is_output(weight)) {
    return false;
  }
  return std::all_of(weight->users().begin(), weight->users().end(), [&](const ir::Node* user) {
    const std::optional<Product> product = product_of(*user);
    return product && product->weight.value() == weight && product->input.value() != weight;
  });
}

ir::Value* transposed(ir::Node& user, ir::Value* weight) {
  ir::TensorType type = weight->type.tensor;
  std::swap(type.dims[0], type.dims[1]);
  ir::Node* node =
      user.graph()->create_node(op::permute_copy, {{weight}, {ir::Argument::List{{int64_t{1}}, {int64_t{0}}}}}, &user);
  node->tag = user.tag;
  node->source = user.source;
  return node->add_result(weight->name + "_transposed", ir::Type::of(std::move(type)));
}

}  // namespace

PassInfo FuseLinear::info() const { return {"fuse-linear", "Writes products with weights as aten::linear"}; }

Result<Changed> FuseLinear::run(ir::Graph& graph, PassContext& context) {
  Changed changed = Changed::kNo;
  // Asked before anything changes, since a rewritten product is no product any more.
  std::vector<std::pair<ir::Node*, bool>> products;
  for (const auto& node : graph.nodes()) {
    if (const std::optional<Product> product = product_of(*node)) {
      const bool foldable = context.evaluator != nullptr && product->weight.value()->graph() == &graph &&
                            is_weight_only(context.program, product->weight.value());
      products.emplace_back(node.get(), foldable);
    }
  }
  for (const auto& [node, foldable] : products) {
    const Product product = *product_of(*node);
    ir::Argument weight;
    ir::Node* transpose = transpose_behind(product.weight, *node);
    if (transpose != nullptr) {
      weight = transpose->args()[0];
    } else if (foldable) {
      weight.data = transposed(*node, product.weight.value());
    } else {
      continue;
    }
    ir::Node* linear = create_like(*node, op::linear, {product.input, weight, product.bias});
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
