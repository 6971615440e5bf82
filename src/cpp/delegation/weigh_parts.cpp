#include "delegation/weigh_parts.h"

#include <algorithm>
#include <cstdio>
#include <unordered_set>

namespace et::delegation {
namespace {

using passes::TargetIsa;
using passes::Work;
using passes::WorkCost;
using passes::WorkCosts;
using passes::WorkKind;

/// Of the kernels that a load chooses, whatever library they come from.
constexpr WorkCost kTable[] = {
#include "delegation/kernel_costs.def"
};
constexpr WorkCosts kKernelCosts = {kTable, {{5, 16}, {1, 8}}};

/// Up to here two costs are level.
constexpr double kLevel = 1.03;

/// The work of a part that both sides have, and the images that a delegate alone rearranges at its borders.
struct PartWork {
  std::vector<Work> of_both = {{WorkKind::part}};
  std::vector<Work> of_borders;

  explicit PartWork(Span<ir::Node* const> part) : members_(part.begin(), part.end()) {
    bool has_images = false;
    for (const ir::Node* node : part) {
      if (const std::optional<Work> work = passes::work_of(*node)) {
        of_both.push_back(*work);
        has_images = has_images || work->kind < WorkKind::line_depthwise || work->kind == WorkKind::pooling;
      }
    }
    if (!has_images) {
      return;
    }
    for (const ir::Node* node : part) {
      node->for_each_input([this](const ir::Value* value) {
        if (value->producer() != nullptr && members_.count(value->producer()) == 0) {
          cross(*value);
        }
      });
      for (const auto& result : node->results()) {
        const auto& users = result->users();
        if (std::any_of(users.begin(), users.end(), [&](const ir::Node* user) { return members_.count(user) == 0; })) {
          cross(*result);
        }
      }
    }
  }

 private:
  /// Kernels keep images with channels innermost from one operator to the next. A delegate's borders are row-major.
  void cross(const ir::Value& value) {
    const bool is_constant = value.producer()->op == "constant";
    if (!is_constant && value.type.is_tensor() && value.type.tensor.rank() == 4 && crossed_.insert(&value).second) {
      of_borders.push_back({WorkKind::moves, false, static_cast<double>(value.type.tensor.max_numel())});
    }
  }

  std::unordered_set<const ir::Node*> members_;
  std::unordered_set<const ir::Value*> crossed_;
};

double sum(const std::vector<Work>& works, TargetIsa isa, const WorkCosts& costs) {
  double total = 0;
  for (const Work& work : works) {
    total += passes::cost_of(work, isa, costs);
  }
  return total;
}

std::string microseconds(double nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", nanoseconds / 1e3);
  return nanoseconds < 1e6 ? text : std::to_string(static_cast<int64_t>(nanoseconds / 1e3));
}

}  // namespace

std::optional<Verdict> weigh_part(Span<ir::Node* const> part, const WorkCosts* backend_costs,
                                  const std::vector<TargetIsa>& isas) {
  if (backend_costs == nullptr) {
    return std::nullopt;
  }
  const PartWork work(part);
  double most_if_taken = 1, most_if_left = 1;
  Verdict verdict;
  for (const TargetIsa isa : isas) {
    const double taken = sum(work.of_both, isa, *backend_costs) + sum(work.of_borders, isa, *backend_costs);
    const double left = sum(work.of_both, isa, kKernelCosts);
    most_if_taken = std::max(most_if_taken, left > 0 ? taken / left : 1);
    most_if_left = std::max(most_if_left, taken > 0 ? left / taken : 1);
    verdict.text += (verdict.text.empty() ? "" : ", ") + microseconds(taken) + " us against " + microseconds(left) +
                    " us in kernels (" + std::string(passes::name_of(isa)) + ")";
  }
  verdict.is_taken = most_if_taken <= kLevel || most_if_taken <= most_if_left;
  return verdict;
}

}  // namespace et::delegation
