#include "passes/drop_unused_results.h"

#include <algorithm>
#include <iterator>

#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// An operator with several results, and the one with the same arguments that gives only the first.
struct Lesser {
  std::string_view whole;
  std::string_view first_only;
};
constexpr Lesser kLesser[] = {
    {op::linalg_eig, op::_linalg_eigvals},
    {op::max_pool2d_with_indices, op::max_pool2d},
    {op::max_pool3d_with_indices, op::max_pool3d},
};

bool uses_only_first(const ir::Node& node) {
  for (size_t i = 1; i < node.results().size(); ++i) {
    if (!node.graph()->is_unused(node.result(i))) {
      return false;
    }
  }
  return true;
}

/// Decompositions whose argument kComputeVectors says whether all but one of the results are wanted.
struct Vectors {
  std::string_view op;
  size_t values;  // the result that always is
};
constexpr Vectors kVectors[] = {
    {op::_linalg_eigh, 0},
    {op::_linalg_svd, 1},
};

/// Eigenvectors and singular vectors that nobody uses are not computed: the argument becomes false, with which they are
/// empty.
bool drop_vectors(ir::Node* node) {
  constexpr size_t kComputeVectors = 2;
  const auto* const found =
      std::find_if(std::begin(kVectors), std::end(kVectors), [&](const Vectors& v) { return v.op == node->op; });
  if (found == std::end(kVectors) || node->args().size() <= kComputeVectors ||
      int_of(node->args()[kComputeVectors]).value_or(0) == 0) {
    return false;
  }
  for (size_t i = 0; i < node->results().size(); ++i) {
    if (i != found->values && !node->graph()->is_unused(node->result(i))) {
      return false;
    }
  }
  node->set_arg(kComputeVectors, ir::Argument{false});
  for (size_t i = 0; i < node->results().size(); ++i) {
    if (i != found->values) {
      ir::TensorType& type = node->result(i)->type.tensor;
      type = ir::TensorType::contiguous(type.dtype, {ir::Dim(0)});
    }
  }
  return true;
}

}  // namespace

PassInfo DropUnusedResults::info() const {
  return PassInfo::extension("drop-unused-results", "Uses the operator that computes only what is used");
}

Result<Changed> DropUnusedResults::run(ir::Graph& graph, PassContext&) {
  return rewrite_each(graph, [](ir::Node* node) {
    for (const Lesser& lesser : kLesser) {
      if (node->op != lesser.whole || !uses_only_first(*node)) {
        continue;
      }
      const ops::OpInfo* op = ops::find_op(lesser.first_only);
      const ir::Value* const input = node->args()[0].value();
      if (op == nullptr || input == nullptr || !op->supports(input->type.tensor.dtype)) {
        continue;
      }
      ir::Node* created = create_like(*node, lesser.first_only, node->args());
      created->add_result(node->result()->name, node->result()->type);
      replace_node(node, created);
      return true;
    }
    return drop_vectors(node);
  });
}

}  // namespace et::passes
