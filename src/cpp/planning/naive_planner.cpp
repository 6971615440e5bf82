#include <algorithm>

#include "base/log.h"
#include "planning/planner.h"

namespace et::planning {

Error NaivePlanner::plan(Span<const Request> requests, Span<const Arena> arenas, std::vector<Placement>& placements) {
  placements.clear();
  placements.reserve(requests.size());
  std::vector<uint64_t> used(arenas.size(), 0);
  for (const Request& request : requests) {
    ET_CHECK_OR_RETURN(request.memory_id <= arenas.size(), InvalidArgument,
                       "memory id %" PRIu32 ", there are %zu arenas", request.memory_id, arenas.size());
    size_t i = request.memory_id == 0 ? 0 : request.memory_id - 1;
    const size_t end = request.memory_id == 0 ? arenas.size() : request.memory_id;
    while (i < end && arenas[i].capacity != 0 &&
           request.nbytes > arenas[i].capacity - std::min(arenas[i].capacity, used[i])) {
      ++i;
    }
    ET_CHECK_OR_RETURN(i < end, OutOfResources, "no arena has room for %" PRIu64 " more bytes", request.nbytes);
    placements.push_back({static_cast<uint32_t>(i + 1), used[i]});
    used[i] += request.nbytes;
  }
  return Error::Ok;
}

std::vector<uint64_t> arena_sizes(Span<const Request> requests, Span<const Placement> placements, size_t num_arenas) {
  std::vector<uint64_t> sizes(num_arenas + 1, 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    uint64_t& size = sizes[placements[i].memory_id];
    size = std::max(size, placements[i].offset + requests[i].nbytes);
  }
  return sizes;
}

}  // namespace et::planning
