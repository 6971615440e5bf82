#include "delegation/weigh_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_set>

#include "passes/work.h"

namespace et::delegation {
namespace {

using ops::TargetIsa;
using ops::Work;
using ops::WorkCosts;
using ops::WorkKind;

/// The work of a part that both sides have, and the images that a delegate alone rearranges at its borders.
struct PartWork {
  std::vector<Work> of_both = {{WorkKind::part}};
  std::vector<Work> of_borders;

  explicit PartWork(Span<ir::Node* const> part) : members_(part.begin(), part.end()) {
    bool has_images = false;
    for (const ir::Node* node : part) {
      if (const std::optional<Work> work = passes::work_of(*node)) {
        of_both.push_back(*work);
        has_images = has_images || ops::is_on_images(work->kind);
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
    if (!is_constant && value.type.is_tensor() && value.type.tensor.rank() >= 3 && crossed_.insert(&value).second) {
      of_borders.push_back(
          {WorkKind::moves, ops::WorkNumbers::floating, static_cast<double>(value.type.tensor.max_numel())});
    }
  }

  std::unordered_set<const ir::Node*> members_;
  std::unordered_set<const ir::Value*> crossed_;
};

double in_backend(const Work& work, TargetIsa isa, const WorkCosts& backend) {
  return ops::cost_of(work, isa, backend).value_or(0);
}

using Price = double (*)(const Work& work, TargetIsa isa, const WorkCosts& backend);

double sum(const std::vector<Work>& works, TargetIsa isa, const WorkCosts& backend, Price price) {
  double total = 0;
  for (const Work& work : works) {
    total += price(work, isa, backend);
  }
  return total;
}

std::string microseconds(double nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", nanoseconds / 1e3);
  return nanoseconds < 1e6 ? text : std::to_string(static_cast<int64_t>(nanoseconds / 1e3));
}

}  // namespace

double kernel_cost(const Work& work, TargetIsa isa, const WorkCosts& backend) {
  const std::optional<double> own = ops::cost_of(work, isa, ops::kKernelCosts);
  const bool is_kernel_of_backend = backend.has_kernel != nullptr && backend.has_kernel(work);
  const double there = in_backend(work, isa, backend);
  return !own ? there : is_kernel_of_backend ? std::min(*own, there) : *own;
}

std::optional<Verdict> weigh_part(Span<ir::Node* const> part, const WorkCosts* backend_costs,
                                  const std::vector<TargetIsa>& isas) {
  if (backend_costs == nullptr) {
    return std::nullopt;
  }
  const PartWork work(part);
  Balance balance;
  Verdict verdict;
  for (const TargetIsa isa : isas) {
    const double taken =
        sum(work.of_both, isa, *backend_costs, &in_backend) + sum(work.of_borders, isa, *backend_costs, &in_backend);
    const double left = sum(work.of_both, isa, *backend_costs, &kernel_cost);
    balance.add(taken, left);
    verdict.text += (verdict.text.empty() ? "" : ", ") + microseconds(taken) + " us against " + microseconds(left) +
                    " us in kernels (" + std::string(ops::name_of(isa)) + "), " + microseconds(std::abs(taken - left)) +
                    (taken < left ? " us less" : " us more");
  }
  verdict.is_taken = balance.is_taken();
  return verdict;
}

}  // namespace et::delegation
