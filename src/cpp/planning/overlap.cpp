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

ForbiddenOffsets forbidden_offsets(Span<const Request> requests, size_t a, size_t b, uint64_t offset_of_b) {
  const auto offset = static_cast<int64_t>(offset_of_b);
  auto before = static_cast<int64_t>(requests[a].nbytes), after = static_cast<int64_t>(requests[b].nbytes);
  const bool a_is_over = requests[a].over.input == b;
  if (a_is_over || requests[b].over.input == a) {
    const Overlap& over = requests[a_is_over ? a : b].over;
    before = std::min(before, static_cast<int64_t>(a_is_over ? over.in_front : over.behind));
    after = std::min(after, static_cast<int64_t>(a_is_over ? over.behind : over.in_front));
  }
  return {offset - before, offset + after};
}

Error check_plan(Span<const Request> requests, Span<const Arena> arenas, Span<const Placement> placements,
                 uint64_t alignment) {
  ET_CHECK_OR_RETURN(placements.size() == requests.size(), InvalidArgument, "%zu places for %zu requests",
                     placements.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    ET_RETURN_IF_ERROR(check_place(requests[i], placements[i], arenas, alignment));
    const uint32_t input = requests[i].over.input;
    ET_CHECK_OR_RETURN(
        input == Overlap::kNone || (input < requests.size() && requests[input].last == requests[i].first),
        InvalidArgument, "%s may overlap what is alive after its first step", std::string(requests[i].name).c_str());
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
      const ForbiddenOffsets forbidden = forbidden_offsets(requests, i, j, placements[j].offset);
      const auto offset = static_cast<int64_t>(placements[i].offset);
      const bool apart =
          placements[i].memory_id != placements[j].memory_id || offset <= forbidden.low || offset >= forbidden.high;
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
