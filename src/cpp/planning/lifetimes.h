/// When each piece of memory of a method is in use.
///
/// For: planners and the overlap checker. A Lifetime is one piece of memory: all the values that share it (views,
/// in-place results, operands under another name inside a region, branches' outputs that become one result) counted
/// once. Not for: choosing places (planner.h).
///
/// Time is the index of a step of ir::Schedule plus one; 0 is before the first step (inputs arrive), num_steps + 1
/// after the last (outputs are read). Intervals are closed: what step s reads and what it writes are both alive at s.
///
///  - A value used in a loop that was made before the loop lives until the loop's end.
///  - A move binds and copies no data, so its source lives as long as what it was moved to.
///  - A mutable buffer lives always.
///  - Memory may overlap the input of the node that writes it first when nothing reads that input later and no other
///    argument of the node lies in it (options.overlap_inputs).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planning/planner.h"

namespace et::planning {

/// Which of a method's values get memory from the plan.
struct LifetimeOptions {
  bool plan_inputs = true;   ///< false: the caller gives memory for tensor inputs
  bool plan_outputs = true;  ///< false: the caller gives memory for tensor outputs
  /// Results may overlap the inputs that die with them, where the kernels of microcontrollers can work so. Other
  /// kernels refuse such calls at load.
  bool overlap_inputs = false;
};

/// One piece of memory and when it is in use.
struct Lifetime {
  uint32_t first = 0;      ///< first step at which the content matters, inclusive
  uint32_t last = 0;       ///< last step, inclusive
  uint64_t nbytes = 0;     ///< largest of the values that share it, at the upper bound of their dims; not aligned
  uint32_t accesses = 0;   ///< steps that read or write it
  uint32_t memory_id = 0;  ///< 0: any arena; else the one that was requested (Value::allocation before planning)
  const ir::Node* buffer = nullptr;  ///< the `buffer` node, for a mutable buffer
  std::vector<ir::Value*> values;    ///< in order of appearance; not empty
  bool is_input = false;             ///< one input of the method, under no other name
  bool is_output = false;            ///< one output of the method, under no other name
  Overlap over;                      ///< an input that it may overlap: index in Lifetimes::planned
};

struct Lifetimes {
  std::vector<Lifetime> planned;  ///< in order of appearance
  /// Results of control flow that own no memory: a move always binds them before they are read. They get the place of
  /// the source: {result, a value of the group it is bound to, or nullptr}.
  std::vector<std::pair<ir::Value*, ir::Value*>> bound;
  uint32_t num_steps = 0;
  /// Largest sum of nbytes alive at one time: no plan can be smaller.
  uint64_t max_live_nbytes = 0;
};

/// Lifetimes of the tensors of `graph` that the plan gives memory to. Constants, unplanned inputs and outputs and
/// tensors whose size only the data decides are left out.
///
/// Errors: InvalidProgram, control flow out of form (ir/schedule.h); InvalidArgument, an unplanned output shares memory
///         with another value.
Result<Lifetimes> compute_lifetimes(const ir::Graph& graph, const LifetimeOptions& options);

/// Largest sum of nbytes of `lifetimes` at one time.
uint64_t max_live_nbytes(const std::vector<Lifetime>& lifetimes);

}  // namespace et::planning
