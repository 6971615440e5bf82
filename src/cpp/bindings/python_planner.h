/// A memory planner that is a Python function.
///
/// For: `ExecutorchBackendConfig(memory_planner=…)`. The function gets plain tuples and returns plain tuples, so that
/// it needs to know none of our classes; what it returns goes through the overlap checker like any other plan.
///
///     def planner(requests, arenas):
///         # requests: [(name, first, last, nbytes, accesses, memory_id)]; arenas: [(name, capacity)]
///         return [(memory_id, offset), …]
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "planning/planner.h"

namespace et::bindings {

/// The planner called `name` ("greedy", "naive") or a callable; nullptr for None (the default). GIL held.
/// Errors: ValueError for another name.
std::shared_ptr<planning::Planner> to_planner(const pybind11::object& planner);

/// Throws what the planner's function threw in its last plan, if it did. GIL held.
void rethrow_planner_error(const std::shared_ptr<planning::Planner>& planner);

}  // namespace et::bindings
