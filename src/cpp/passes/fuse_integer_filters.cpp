#include "passes/fuse_integer_filters.h"

#include "passes/quantized_products.h"

namespace et::passes {

PassInfo FuseIntegerFilters::info() const {
  return PassInfo::extension("fuse-integer-filters",
                             "Stores filters of float convolutions as the integers they came from");
}

Result<Changed> FuseIntegerFilters::run(ir::Graph& graph, PassContext& context) {
  return rewrite_each(graph, [&](ir::Node* node) { return node->tag.empty() && fuse_filter(context.program, node); });
}

}  // namespace et::passes
