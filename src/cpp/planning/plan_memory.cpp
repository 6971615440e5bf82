#include "planning/plan_memory.h"

#include <algorithm>
#include <map>

#include "base/checked_math.h"
#include "base/log.h"
#include "planning/overlap.h"

namespace et::planning {
namespace {

/// Where each shared buffer lies in its own arena: by name, so that every method agrees.
class SharedBuffers {
 public:
  SharedBuffers(const ir::Program& program, uint64_t alignment) {
    for (const auto& [name, buffer] : program.buffers) {
      if (buffer.is_shared) {
        offsets_.emplace(name, nbytes_);
        nbytes_ += align_up(static_cast<uint64_t>(buffer.initial.type.max_nbytes()), alignment);
      }
    }
  }

  static uint64_t align_up(uint64_t nbytes, uint64_t alignment) { return (nbytes + alignment - 1) & ~(alignment - 1); }

  uint64_t nbytes() const { return nbytes_; }
  /// Offset of the buffer that `life` is, or nullptr when it is none of the shared ones.
  const uint64_t* find(const Lifetime& life) const {
    if (life.buffer == nullptr) {
      return nullptr;
    }
    const auto entry = offsets_.find(life.buffer->symbol);
    return entry == offsets_.end() ? nullptr : &entry->second;
  }

 private:
  std::map<std::string, uint64_t> offsets_;
  uint64_t nbytes_ = 0;
};

/// The parts of a method's plan that planner and checker look at.
struct Problem {
  std::vector<size_t> lifetimes;  ///< index of the lifetime of each request
  std::vector<Request> requests;
};

Problem make_problem(const Lifetimes& lifetimes, const SharedBuffers& shared, uint64_t alignment) {
  Problem problem;
  for (size_t i = 0; i < lifetimes.planned.size(); ++i) {
    const Lifetime& life = lifetimes.planned[i];
    if (shared.find(life) != nullptr) {
      continue;
    }
    problem.lifetimes.push_back(i);
    problem.requests.push_back({life.first, life.last, SharedBuffers::align_up(life.nbytes, alignment), life.accesses,
                                life.memory_id, life.values.front()->name});
  }
  return problem;
}

void allocate(const Lifetime& life, ir::Allocation allocation) {
  for (ir::Value* value : life.values) {
    value->allocation = allocation;
  }
}

Error plan_graph(ir::Graph& graph, const MemoryPlan& plan, Planner& planner, const SharedBuffers& shared,
                 MethodReport& report) {
  ET_CHECK_OR_RETURN(graph.stage == ir::Stage::kLowered, InvalidState, "%s: memory is planned after lowering, once",
                     graph.name.c_str());
  ET_TRY(const Lifetimes lifetimes, compute_lifetimes(graph, plan.lifetimes));
  const Problem problem = make_problem(lifetimes, shared, plan.alignment);
  std::vector<Placement> places;
  ET_RETURN_IF_ERROR(planner.plan(problem.requests, plan.arenas, places));
  ET_RETURN_IF_ERROR(check_plan(problem.requests, plan.arenas, places, plan.alignment));

  for (size_t i = 0; i < places.size(); ++i) {
    allocate(lifetimes.planned[problem.lifetimes[i]], {places[i].memory_id, places[i].offset});
  }
  const uint32_t shared_id = static_cast<uint32_t>(plan.arenas.size()) + 1;
  bool uses_shared = false;
  for (const Lifetime& life : lifetimes.planned) {
    if (const uint64_t* offset = shared.find(life)) {
      allocate(life, {shared_id, *offset});
      uses_shared = true;
    }
  }
  // No byte of these is ever touched; any valid place will do, and the source's is one.
  for (const auto& [value, source] : lifetimes.bound) {
    value->allocation = source != nullptr ? source->allocation : ir::Allocation();
  }

  graph.arena_sizes = arena_sizes(problem.requests, places, plan.arenas.size());
  if (uses_shared) {
    graph.arena_sizes.push_back(shared.nbytes());
  }
  while (graph.arena_sizes.size() > 1 && graph.arena_sizes.back() == 0) {
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
    report.naive_nbytes += SharedBuffers::align_up(life.nbytes, plan.alignment);
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

Error plan_memory(ir::Program& program, const MemoryPlan& plan, PlanReport* report) {
  ET_RETURN_IF_ERROR(check_options(plan));
  GreedyPlanner greedy;
  Planner& planner = plan.planner != nullptr ? *plan.planner : greedy;
  const SharedBuffers shared(program, plan.alignment);
  for (const auto& graph : program.methods) {
    MethodReport entry;
    ET_RETURN_IF_ERROR(plan_graph(*graph, plan, planner, shared, entry));
    if (report != nullptr) {
      report->push_back(std::move(entry));
    }
  }
  return Error::Ok;
}

Error check_allocations(const ir::Program& program, const ir::Graph& graph, const MemoryPlan& plan) {
  ET_RETURN_IF_ERROR(check_options(plan));
  ET_CHECK_OR_RETURN(graph.stage == ir::Stage::kPlanned, InvalidState, "%s has no plan yet", graph.name.c_str());
  ET_TRY(const Lifetimes lifetimes, compute_lifetimes(graph, plan.lifetimes));
  const SharedBuffers shared(program, plan.alignment);
  Problem problem = make_problem(lifetimes, shared, plan.alignment);
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
