/// The smallest arena for a few requests, by trying everything. The oracle of the planners' tests.
///
/// Placing requests in some order, each at the lowest free offset, gives the best plan for at least one order. Take a
/// best plan, push every request down as far as it goes, and order them by offset. So trying every order finds it.
/// Cost: n! * n².
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "planning/overlap.h"
#include "planning/planner.h"

namespace et::planning {

inline bool alive_together(const Request& a, const Request& b) { return a.first <= b.last && b.first <= a.last; }

inline uint64_t lowest_fit(const std::vector<Request>& requests, const std::vector<Placement>& places,
                           const std::vector<uint32_t>& placed, uint32_t index) {
  std::vector<ForbiddenOffsets> forbidden;
  std::vector<int64_t> candidates{0};
  for (const uint32_t other : placed) {
    if (alive_together(requests[other], requests[index])) {
      forbidden.push_back(forbidden_offsets(requests, index, other, places[other].offset));
      candidates.push_back(forbidden.back().high);
    }
  }
  std::sort(candidates.begin(), candidates.end());
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](int64_t offset) {
    return std::none_of(forbidden.begin(), forbidden.end(),
                        [&](const ForbiddenOffsets& f) { return f.low < offset && offset < f.high; });
  });
  return static_cast<uint64_t>(found == candidates.end() ? candidates.back() : *found);
}

inline uint64_t smallest_arena(const std::vector<Request>& requests) {
  std::vector<uint32_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0u);
  uint64_t best = UINT64_MAX;
  do {
    std::vector<Placement> places(requests.size());
    std::vector<uint32_t> placed;
    uint64_t size = 0;
    for (const uint32_t index : order) {
      const uint64_t offset = lowest_fit(requests, places, placed, index);
      places[index] = {1, offset};
      placed.push_back(index);
      size = std::max(size, offset + requests[index].nbytes);
    }
    best = std::min(best, size);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

}  // namespace et::planning
