/// A request for memory, as tests of plans write it.
#pragma once

#include <cstdint>

#include "planning/overlap.h"

namespace et::planning {

/// `nbytes` bytes that are alive from instruction `first` to `last`.
inline Request request(uint32_t first, uint32_t last, uint64_t nbytes, uint32_t memory_id = 0, uint32_t accesses = 1) {
  Request out;
  out.first = first;
  out.last = last;
  out.nbytes = nbytes;
  out.memory_id = memory_id;
  out.accesses = accesses;
  out.name = "t";
  return out;
}

}  // namespace et::planning
