/// The overlap checker: is a plan right?
///
/// For: every plan, whoever made it. A plan is right when no two requests alive at the same time share a byte (but for
/// those that may overlap, Request::over), every place is aligned and lies inside its arena. Run after each planner,
/// always: a custom planner's mistake must not become a model that computes nonsense.
#pragma once

#include "planning/planner.h"

namespace et::planning {

/// Offsets that a request may not have: those between these two, which it may have.
struct ForbiddenOffsets {
  int64_t low;  ///< negative: there is none below
  int64_t high;
};

/// What request `b` at `offset_of_b` forbids request `a` in the same arena while both are alive.
ForbiddenOffsets forbidden_offsets(Span<const Request> requests, size_t a, size_t b, uint64_t offset_of_b);

/// Errors: InvalidArgument, with a line that names both requests and what overlaps.
/// Cost: O(n log n + n·k), k requests alive at once.
Error check_plan(Span<const Request> requests, Span<const Arena> arenas, Span<const Placement> placements,
                 uint64_t alignment);

}  // namespace et::planning
