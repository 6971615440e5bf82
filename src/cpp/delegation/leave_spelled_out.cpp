#include "delegation/leave_spelled_out.h"

#include <algorithm>

#include "delegation/weigh_parts.h"
#include "passes/recognise_activations.h"
#include "passes/recognise_norms.h"
#include "passes/work.h"

namespace et::delegation {

namespace {

bool is_taken(const ir::Node* node) { return !node->tag.empty(); }

/// A backend without costs keeps what it takes whole. One with costs makes as many passes over the data as the function
/// has operators; the kernel makes one, behind the border of a part.
bool is_better_inside(const passes::SpelledOut& found, const ops::WorkCosts* costs,
                      const std::vector<ops::TargetIsa>& isas) {
  if (!std::all_of(found.nodes.begin(), found.nodes.end(), is_taken)) {
    return false;
  }
  const ir::TensorType& type = *passes::type_of(*found.root);
  if (costs == nullptr) {
    return true;
  }
  const ops::Work function = passes::work_of(found.op, type)
                                 .value_or(ops::Work{ops::WorkKind::exponential, ops::WorkNumbers::floating,
                                                     static_cast<double>(type.max_numel())});
  Balance balance;
  for (const ops::TargetIsa isa : isas) {
    double inside = 0, outside = kernel_cost(function, isa, *costs);
    for (const ir::Node* node : found.nodes) {
      const std::optional<ops::Work> work = passes::work_of(*node);
      inside += work ? ops::cost_of(*work, isa, *costs).value_or(0) : 0;
    }
    outside += ops::cost_of({ops::WorkKind::part}, isa, *costs).value_or(0);
    if (type.rank() == 4) {  // images would be rearranged on the way out and in
      outside +=
          2 * ops::cost_of({ops::WorkKind::moves, ops::WorkNumbers::floating, function.units}, isa, *costs).value_or(0);
    }
    balance.add(inside, outside);
  }
  return balance.is_taken();
}

}  // namespace

void leave_spelled_out(ir::Graph& graph, const ir::Program& program, passes::BackendCompiler& compiler,
                       const std::vector<ops::TargetIsa>& isas,
                       const std::function<void(ir::Node&, std::string)>& refuse) {
  for (const auto& node : graph.nodes()) {
    std::optional<passes::SpelledOut> found = passes::spelled_out_activation(*node, program);
    found = found ? std::move(found) : passes::spelled_out_norm(*node, program);
    if (!found || is_better_inside(*found, compiler.offer({found->nodes.data(), found->nodes.size()}).costs, isas)) {
      continue;
    }
    for (ir::Node* part : found->nodes) {
      if (is_taken(part)) {
        refuse(*part,
               "it is part of " + std::string(found->op) + ", which is spelled out here and runs as one operator");
      }
    }
  }
}

}  // namespace et::delegation
