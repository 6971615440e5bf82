#include "planning/overlap.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/checked_math.h"
#include "base/log.h"

namespace et::planning {
namespace {

Error check_place(const Request& request, const Placement& place, Span<const Arena> arenas, uint64_t alignment) {
  const std::string name(request.name);
  ET_CHECK_OR_RETURN(place.memory_id >= 1 && place.memory_id <= arenas.size(), InvalidArgument,
                     "%s is placed in memory id %" PRIu32 ", the ids are 1 to %zu", name.c_str(), place.memory_id,
                     arenas.size());
  ET_CHECK_OR_RETURN(request.memory_id == 0 || request.memory_id == place.memory_id, InvalidArgument,
                     "%s is placed in memory id %" PRIu32 ", it must be in %" PRIu32, name.c_str(), place.memory_id,
                     request.memory_id);
  ET_CHECK_OR_RETURN(place.offset % alignment == 0, InvalidArgument,
                     "%s is at offset %" PRIu64 ", which is no multiple of %" PRIu64, name.c_str(), place.offset,
                     alignment);
  uint64_t end = 0;
  const uint64_t capacity = arenas[place.memory_id - 1].capacity;
  ET_CHECK_OR_RETURN(!add_overflow(place.offset, request.nbytes, &end) && (capacity == 0 || end <= capacity),
                     InvalidArgument, "%s ends past its arena of %" PRIu64 " bytes", name.c_str(), capacity);
  return Error::Ok;
}

}  // namespace

Error check_plan(Span<const Request> requests, Span<const Arena> arenas, Span<const Placement> placements,
                 uint64_t alignment) {
  ET_CHECK_OR_RETURN(placements.size() == requests.size(), InvalidArgument, "%zu places for %zu requests",
                     placements.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    ET_RETURN_IF_ERROR(check_place(requests[i], placements[i], arenas, alignment));
  }
  std::vector<uint32_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return requests[a].first < requests[b].first; });
  std::vector<uint32_t> alive;
  for (const uint32_t i : order) {
    const Request& request = requests[i];
    alive.erase(
        std::remove_if(alive.begin(), alive.end(), [&](uint32_t j) { return requests[j].last < request.first; }),
        alive.end());
    for (const uint32_t j : alive) {
      const bool apart = placements[i].memory_id != placements[j].memory_id ||
                         placements[i].offset + request.nbytes <= placements[j].offset ||
                         placements[j].offset + requests[j].nbytes <= placements[i].offset;
      ET_CHECK_OR_RETURN(apart || request.nbytes == 0 || requests[j].nbytes == 0, InvalidArgument,
                         "%s and %s are alive at step %" PRIu32 " and share bytes of memory id %" PRIu32,
                         std::string(requests[j].name).c_str(), std::string(request.name).c_str(), request.first,
                         placements[i].memory_id);
    }
    alive.push_back(i);
  }
  return Error::Ok;
}

}  // namespace et::planning
