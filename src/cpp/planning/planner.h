/// Planners: from lifetimes to places in memory.
///
/// A planner gets requests (how many bytes, from when to when) and arenas (how many bytes each may have) and gives each
/// request an arena and an offset. It knows nothing of graphs, so a user's planner, in C++ or Python, is one function.
///
///     std::vector<Placement> places;
///     ET_RETURN_IF_ERROR(GreedyPlanner().plan(requests, arenas, places));
///
/// Not for: deciding what needs memory and when (lifetimes.h), writing places into a graph (plan_memory.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/span.h"

namespace et::planning {

/// Memory that is written while its input is read may overlap it, at a distance between the places where both begin
/// (ops/image_windows.h). Its first step is the input's last.
struct Overlap {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t input = kNone;  ///< index of the request or lifetime
  uint64_t in_front = 0;   ///< bytes that it begins in front of the input, at least,
  uint64_t behind = 0;     ///< or behind it

  /// Bytes that both take when they overlap as far as they may.
  uint64_t nbytes(uint64_t of_input, uint64_t own) const {
    return std::min(std::max(in_front + of_input, own), std::max(behind + own, of_input));
  }
};

/// A piece of memory that is wanted during a closed interval of time.
struct Request {
  uint32_t first = 0;
  uint32_t last = 0;
  uint64_t nbytes = 0;     ///< a multiple of the alignment
  uint32_t accesses = 0;   ///< how many instructions touch it
  uint32_t memory_id = 0;  ///< the arena it must be in; 0 = the planner chooses
  std::string_view name;   ///< of the value, for messages
  Overlap over;            ///< another request that this one may overlap
};

/// An arena; its memory id is its index in the list plus one.
struct Arena {
  std::string name;       ///< for messages: "SRAM"
  uint64_t capacity = 0;  ///< bytes; 0 = no limit
};

struct Placement {
  uint32_t memory_id = 0;  ///< from 1
  uint64_t offset = 0;     ///< bytes, a multiple of the alignment
};

/// Thread-safe when it keeps no state; plans are made one after another.
class Planner {
 public:
  virtual ~Planner() = default;
  virtual const char* name() const = 0;
  /// Fills `placements` with one entry a request.
  /// Errors: OutOfResources, the requests do not fit the arenas; InvalidArgument, a request names no arena of the list.
  virtual Error plan(Span<const Request> requests, Span<const Arena> arenas, std::vector<Placement>& placements) = 0;
};

/// Every request has its own bytes: no reuse. The plan in which a wrong lifetime does no harm, for finding such bugs.
class NaivePlanner final : public Planner {
 public:
  const char* name() const override { return "naive"; }
  Error plan(Span<const Request> requests, Span<const Arena> arenas, std::vector<Placement>& placements) override;
};

/// Places requests one at a time into the smallest gap that is free during their life, the lowest of equal ones.
///
/// What decides the total is the order. By falling size is best for most models; the others (area, length of life,
/// time) win on some. So all are tried until a plan has the size of the live-bytes bound, and the best is kept. When
/// none comes within 1 %, requests at the top of the best plan are moved to the front of the order, a bounded number of
/// times.
///
/// With several arenas a request goes into the first one that has room for it: list fast memory first. Requests with
/// more accesses a byte come first then.
///
/// Cost: O(n²) an order. Deterministic.
/// Source: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020 (greedy by size and by
///         breadth); the search over orders is ours, measured in docs/design/memory_planning.md.
class GreedyPlanner final : public Planner {
 public:
  const char* name() const override { return "greedy"; }
  Error plan(Span<const Request> requests, Span<const Arena> arenas, std::vector<Placement>& placements) override;
};

/// Bytes of each arena that `placements` use; index 0 is unused, as in the file.
std::vector<uint64_t> arena_sizes(Span<const Request> requests, Span<const Placement> placements, size_t num_arenas);

}  // namespace et::planning
