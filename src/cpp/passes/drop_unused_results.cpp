#include "passes/drop_unused_results.h"

#include "passes/rewrite.h"

namespace et::passes {
namespace {

/// An operator with several results, and the one with the same arguments that gives only the first.
struct Lesser {
  std::string_view whole;
  std::string_view first_only;
};
constexpr Lesser kLesser[] = {
    {"aten::max_pool2d_with_indices", "aten::max_pool2d"},
};

bool uses_only_first(const ir::Node& node) {
  for (size_t i = 1; i < node.results().size(); ++i) {
    if (!node.graph()->is_unused(node.result(i))) {
      return false;
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
      if (op == nullptr || !op->supports(node->result()->type.tensor.dtype)) {
        continue;
      }
      ir::Node* created = create_like(*node, lesser.first_only, node->args());
      created->add_result(node->result()->name, node->result()->type);
      replace_node(node, created);
      return true;
    }
    return false;
  });
}

}  // namespace et::passes
