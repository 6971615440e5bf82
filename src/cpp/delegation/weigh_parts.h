/// Compares what a part costs in a backend with what the runtime's kernels would take for it.
///
/// For: query_support, where the user leaves the choice to costs. Both sides price the same work (passes/work.h) from
///      measured tables: the backend's is its own, the kernels' stands here. Not for: parts a user asked for.
///
/// A file may run on several processors. For each of them the choice should cost little over the better one: the part
/// goes where the largest such ratio is smaller. Level sides are the backend's. What decides at load is a kernel,
/// because several serve one operator; a part of a delegate has no second form. See docs/design/15.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/backend_compiler.h"

namespace et::delegation {

struct Verdict {
  bool is_taken = true;
  std::string text;  ///< both costs on each processor: "12.0 us against 8.5 us in kernels (avx2), …"
};

/// Nothing where the backend gives no costs. `isas`: the processors that the file is for, at least one.
std::optional<Verdict> weigh_part(Span<ir::Node* const> part, const passes::WorkCosts* backend_costs,
                                  const std::vector<passes::TargetIsa>& isas);

}  // namespace et::delegation
