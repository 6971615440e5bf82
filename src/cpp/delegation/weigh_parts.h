/// Compares what a part costs in a backend with what the runtime's kernels would take for it.
///
/// For: query_support, where the user leaves the choice to costs. Both sides price the same work (passes/work.h) from
///      measured tables (ops/costs.h): the backend's, and for kernels ours or the backend's, whichever a load would
///      choose. Not for: parts a user asked for.
///
/// A file may run on several processors. For each of them the choice should cost little over the better one: the part
/// goes where the largest such ratio is smaller. Equal sides stay with the kernels: a part has borders. What decides at
/// load is a kernel, because several serve one operator; a part of a delegate has no second form. See docs/design/15.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/costs.h"
#include "passes/backend_compiler.h"

namespace et::delegation {

struct Verdict {
  bool is_taken = true;
  std::string text;  ///< on each processor: "12.0 us against 8.5 us in kernels (avx2), 3.5 us more, …"
};

/// How much each choice of two costs over the better one, on the processor where that is the most.
class Balance {
 public:
  void add(double taken, double left) {
    most_if_taken_ = std::max(most_if_taken_, left > 0 ? taken / left : 1);
    most_if_left_ = std::max(most_if_left_, taken > 0 ? left / taken : 1);
  }
  bool is_taken() const { return most_if_taken_ < most_if_left_; }

 private:
  double most_if_taken_ = 1, most_if_left_ = 1;
};

/// What the kernel costs that a load would choose: ours, or one of the backend's library where it has them. What only
/// the backend prices costs the same outside.
double kernel_cost(const ops::Work& work, ops::TargetIsa isa, const ops::WorkCosts& backend);

/// Nothing where the backend gives no costs. `isas`: the processors that the file is for, at least one.
std::optional<Verdict> weigh_part(Span<ir::Node* const> part, const ops::WorkCosts* backend_costs,
                                  const std::vector<ops::TargetIsa>& isas);

}  // namespace et::delegation
