/// Memory planning of a program: every tensor gets a memory id and an offset.
///
/// In:  graphs at Stage::kLowered (aliases and in-place results decided, writes done by nodes).
/// Out: the same graphs at Stage::kPlanned: Value::allocation of every tensor that the file plans, Graph::arena_sizes.
///
///     MemoryPlans plans;                                    // greedy, one arena without limit, alignment 16
///     plans.common.arenas = {{"SRAM", 256 * 1024}, {"DRAM", 0}};    // fast memory first
///     ET_RETURN_IF_ERROR(plan_memory(program, plans, &report));
///
/// Memory ids: 1 … n are `arenas` in order. Mutable buffers lie in id n + 1 (n of the method with most arenas), at the
/// same offsets in every method. So the methods of a session can share that memory, and a session's state is one block.
/// Buffers of several methods (Buffer::is_shared) come first in it. A value whose `allocation.memory_id` is set before
/// planning stays in that arena.
///
/// After the planner, whichever it is, overlap.h checks what it did.
/// Background: docs/design/memory_planning.md.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planning/lifetimes.h"
#include "planning/planner.h"

namespace et::planning {

/// What to plan and how.
struct MemoryPlan {
  LifetimeOptions lifetimes;
  std::vector<Arena> arenas = {Arena{"arena", 0}};
  uint64_t alignment = 16;           ///< bytes; a power of two. 64 suits wide vector units
  std::shared_ptr<Planner> planner;  ///< nullptr: GreedyPlanner
};

/// One plan for all methods, and others for some of them by name.
struct MemoryPlans {
  MemoryPlan common;
  std::map<std::string, MemoryPlan, std::less<>> by_method;

  const MemoryPlan& of(std::string_view method) const {
    const auto own = by_method.find(method);
    return own == by_method.end() ? common : own->second;
  }
};

/// What came out, for reports and tests; one entry a method.
struct MethodReport {
  std::string method;
  uint64_t planned_nbytes = 0;   ///< all arenas, mutable buffers included
  uint64_t max_live_nbytes = 0;  ///< the bound no plan can go under
  uint64_t naive_nbytes = 0;     ///< without reuse
  std::vector<uint64_t> arena_sizes;
};
using PlanReport = std::vector<MethodReport>;

/// Errors: InvalidArgument, options that make no sense, or a plan that check_plan refuses; OutOfResources, it
///         does not fit; InvalidState, a graph is not at kLowered; what compute_lifetimes returns.
Error plan_memory(ir::Program& program, const MemoryPlans& plans, PlanReport* report = nullptr);

/// Recomputes lifetimes of a graph at kPlanned and checks its allocations, aliases included. For verifying after the
/// fact.
Error check_allocations(const ir::Graph& graph, const MemoryPlan& plan);

}  // namespace et::planning
