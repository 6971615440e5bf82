#include "planning/plan_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/checked_math.h"
#include "base/log.h"
#include "planning/overlap.h"

namespace et::planning {
namespace {

uint64_t align_up(uint64_t nbytes, uint64_t alignment) { return (nbytes + alignment - 1) & ~(alignment - 1); }

/// Where each mutable buffer lies in the arena of the program's state: by name, so that every method agrees.
class StateLayout {
 public:
  StateLayout(const ir::Program& program, const std::vector<Lifetimes>& methods, uint64_t alignment) {
    for (const Lifetimes& lifetimes : methods) {
      for (const Lifetime& life : lifetimes.planned) {
        if (life.buffer != nullptr) {
          uint64_t& size = offsets_.emplace(life.buffer->symbol, 0).first->second;
          size = std::max(size, life.nbytes);
        }
      }
    }
    // Buffers of several methods first: a method that uses only those needs no more than their bytes.
    for (const bool shared : {true, false}) {
      for (auto& [name, value] : offsets_) {
        const auto buffer = program.buffers.find(name);
        if ((buffer != program.buffers.end() && buffer->second.is_shared) == shared) {
          nbytes_ += align_up(std::exchange(value, nbytes_), alignment);
        }
      }
    }
  }

  uint64_t offset(const Lifetime& life) const { return offsets_.at(life.buffer->symbol); }

 private:
  std::map<std::string, uint64_t> offsets_;  ///< sizes while they are collected
  uint64_t nbytes_ = 0;
};

/// The parts of a method's plan that planner and checker look at.
struct Problem {
  std::vector<size_t> lifetimes;  ///< index of the lifetime of each request
  std::vector<Request> requests;
};

Problem make_problem(const Lifetimes& lifetimes, uint64_t alignment) {
  Problem problem;
  std::vector<uint32_t> index_of(lifetimes.planned.size(), Overlap::kNone);
  for (size_t i = 0; i < lifetimes.planned.size(); ++i) {
    const Lifetime& life = lifetimes.planned[i];
    if (life.buffer != nullptr) {
      continue;
    }
    index_of[i] = static_cast<uint32_t>(problem.requests.size());
    problem.lifetimes.push_back(i);
    problem.requests.push_back({life.first,
                                life.last,
                                align_up(life.nbytes, alignment),
                                life.accesses,
                                life.memory_id,
                                life.values.front()->name,
                                {}});
  }
  for (size_t i = 0; i < problem.requests.size(); ++i) {
    const Overlap& over = lifetimes.planned[problem.lifetimes[i]].over;
    if (over.input != Overlap::kNone) {
      problem.requests[i].over = {index_of[over.input], align_up(over.in_front, alignment),
                                  align_up(over.behind, alignment)};
    }
  }
  return problem;
}

/// Places large inputs and outputs apart from everything else where that takes a quarter more memory at most, else
/// large outputs alone. The runtime then takes the caller's memory in their stead. It copies those that share their
/// place.
Error place_ends_apart(const Lifetimes& lifetimes, const MemoryPlan& plan, const Problem& problem, Planner& planner,
                       std::vector<Placement>& places) {
  constexpr uint64_t kLarge = uint64_t{1} << 20;  // a copy of fewer bytes takes microseconds
  const auto nbytes = [&](const std::vector<Placement>& of) {
    return arena_sizes(problem.requests, of, plan.arenas.size()).back();
  };
  for (const bool with_inputs : {true, false}) {
    std::vector<Request> requests = problem.requests;
    bool has_large = false;
    for (size_t i = 0; i < requests.size(); ++i) {
      const Lifetime& life = lifetimes.planned[problem.lifetimes[i]];
      if (life.nbytes >= kLarge && (life.is_output || (life.is_input && with_inputs))) {
        requests[i].first = 0;
        requests[i].last = lifetimes.num_steps + 1;
        has_large = true;
      }
    }
    if (!has_large) {
      return Error::Ok;
    }
    std::vector<Placement> apart;
    ET_RETURN_IF_ERROR(planner.plan(requests, plan.arenas, apart));
    if (nbytes(apart) <= nbytes(places) + nbytes(places) / 4) {
      places = std::move(apart);
      return Error::Ok;
    }
  }
  return Error::Ok;
}

void allocate(const Lifetime& life, ir::Allocation allocation) {
  for (ir::Value* value : life.values) {
    value->allocation = allocation;
  }
}

Error plan_graph(ir::Graph& graph, const Lifetimes& lifetimes, const MemoryPlan& plan, const StateLayout& state,
                 uint32_t state_id, MethodReport& report) {
  GreedyPlanner greedy;
  Planner& planner = plan.planner != nullptr ? *plan.planner : greedy;
  const Problem problem = make_problem(lifetimes, plan.alignment);
  std::vector<Placement> places;
  ET_RETURN_IF_ERROR(planner.plan(problem.requests, plan.arenas, places));
  const bool has_one_open_arena = plan.arenas.size() == 1 && plan.arenas.front().capacity == 0;
  if (plan.planner == nullptr && has_one_open_arena && !plan.lifetimes.overlap_inputs) {
    ET_RETURN_IF_ERROR(place_ends_apart(lifetimes, plan, problem, planner, places));
  }
  ET_RETURN_IF_ERROR(check_plan(problem.requests, plan.arenas, places, plan.alignment));

  for (size_t i = 0; i < places.size(); ++i) {
    allocate(lifetimes.planned[problem.lifetimes[i]], {places[i].memory_id, places[i].offset});
  }
  uint64_t state_nbytes = 0;
  for (const Lifetime& life : lifetimes.planned) {
    if (life.buffer != nullptr) {
      allocate(life, {state_id, state.offset(life)});
      state_nbytes = std::max(state_nbytes, state.offset(life) + align_up(life.nbytes, plan.alignment));
    }
  }
  // No byte of these is ever touched; any valid place will do, and the source's is one when it is large enough. Without
  // a place the value waits for the move that binds it.
  for (const auto& [value, source] : lifetimes.bound) {
    const bool fits = source != nullptr && value->type.tensor.max_nbytes() <= source->type.tensor.max_nbytes();
    value->allocation = fits ? source->allocation : ir::Allocation();
  }

  graph.arena_sizes = arena_sizes(problem.requests, places, plan.arenas.size());
  graph.arena_sizes.resize(state_id, 0);
  graph.arena_sizes.push_back(state_nbytes);
  // An arena without bytes stays when something without bytes (an empty tensor) lies in it.
  uint32_t last_used = 0;
  for (const Placement& place : places) {
    last_used = std::max(last_used, place.memory_id);
  }
  while (graph.arena_sizes.size() > 1 + size_t{last_used} && graph.arena_sizes.back() == 0) {
    graph.arena_sizes.pop_back();
  }
  graph.stage = ir::Stage::kPlanned;

  report.method = graph.name;
  report.arena_sizes = graph.arena_sizes;
  for (const uint64_t size : graph.arena_sizes) {
    report.planned_nbytes += size;
  }
  report.max_live_nbytes = lifetimes.max_live_nbytes;
  for (const Lifetime& life : lifetimes.planned) {
    report.naive_nbytes += align_up(life.nbytes, plan.alignment);
  }
  return Error::Ok;
}

Error check_options(const MemoryPlan& plan) {
  ET_CHECK_OR_RETURN(plan.alignment != 0 && (plan.alignment & (plan.alignment - 1)) == 0, InvalidArgument,
                     "alignment is %" PRIu64 ", it must be a power of two", plan.alignment);
  ET_CHECK_OR_RETURN(!plan.arenas.empty(), InvalidArgument, "a plan needs at least one arena");
  return Error::Ok;
}

}  // namespace

Error plan_memory(ir::Program& program, const MemoryPlans& plans, PlanReport* report) {
  std::vector<Lifetimes> lifetimes;
  size_t num_arenas = 1;
  uint64_t alignment = 1;
  for (const auto& graph : program.methods) {
    ET_CHECK_OR_RETURN(graph->stage == ir::Stage::kLowered, InvalidState, "%s: memory is planned after lowering, once",
                       graph->name.c_str());
    const MemoryPlan& plan = plans.of(graph->name);
    ET_RETURN_IF_ERROR(check_options(plan));
    num_arenas = std::max(num_arenas, plan.arenas.size());
    alignment = std::max(alignment, plan.alignment);
    ET_TRY(Lifetimes lives, compute_lifetimes(*graph, plan.lifetimes));
    lifetimes.push_back(std::move(lives));
  }
  const StateLayout state(program, lifetimes, alignment);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    ir::Graph& graph = *program.methods[i];
    MethodReport entry;
    ET_RETURN_IF_ERROR(
        plan_graph(graph, lifetimes[i], plans.of(graph.name), state, static_cast<uint32_t>(num_arenas) + 1, entry));
    if (report != nullptr) {
      report->push_back(std::move(entry));
    }
  }
  return Error::Ok;
}

Error check_allocations(const ir::Graph& graph, const MemoryPlan& plan) {
  ET_RETURN_IF_ERROR(check_options(plan));
  ET_CHECK_OR_RETURN(graph.stage == ir::Stage::kPlanned, InvalidState, "%s has no plan yet", graph.name.c_str());
  ET_TRY(const Lifetimes lifetimes, compute_lifetimes(graph, plan.lifetimes));
  Problem problem = make_problem(lifetimes, plan.alignment);
  std::vector<Placement> places;
  for (size_t i = 0; i < problem.requests.size(); ++i) {
    const Lifetime& life = lifetimes.planned[problem.lifetimes[i]];
    const ir::Allocation& place = life.values.front()->allocation;
    for (const ir::Value* value : life.values) {
      ET_CHECK_OR_RETURN(value->allocation.memory_id == place.memory_id && value->allocation.offset == place.offset,
                         InvalidArgument, "%%%s and %%%s share memory but not a place", value->name.c_str(),
                         life.values.front()->name.c_str());
    }
    places.push_back({place.memory_id, place.offset});
    problem.requests[i].memory_id = 0;
  }
  return check_plan(problem.requests, plan.arenas, places, plan.alignment);
}

}  // namespace et::planning
