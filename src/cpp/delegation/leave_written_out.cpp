#include "delegation/leave_written_out.h"

#include <algorithm>

#include "passes/recognise_activations.h"
#include "passes/recognise_norms.h"

namespace et::delegation {

namespace {

bool is_taken(const ir::Node* node) { return !node->tag.empty(); }

/// A backend that has all of it may do as many operators, each a pass over the data, before it is faster to leave it
/// and do one. Images stay in any case: they would be transposed on the way out and in.
bool is_better_inside(const passes::WrittenOut& found) {
  constexpr size_t kMostOperators = 3, kMostDims = 3;
  return std::all_of(found.nodes.begin(), found.nodes.end(), is_taken) &&
         (found.nodes.size() <= kMostOperators || passes::type_of(*found.root)->rank() > kMostDims);
}

}  // namespace

void leave_written_out(ir::Graph& graph, const ir::Program& program,
                       const std::function<void(ir::Node&, std::string)>& refuse) {
  for (const auto& node : graph.nodes()) {
    std::optional<passes::WrittenOut> found = passes::written_out_activation(*node, program);
    found = found ? std::move(found) : passes::written_out_norm(*node, program);
    if (!found || is_better_inside(*found)) {
      continue;
    }
    for (ir::Node* part : found->nodes) {
      if (is_taken(part)) {
        refuse(*part,
               "it is part of " + std::string(found->op) + ", which is written out here and runs as one operator");
      }
    }
  }
}

}  // namespace et::delegation
