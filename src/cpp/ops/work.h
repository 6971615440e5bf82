/// Kinds of work: what decides about the cost of an operator (work.def).
///
/// For: the operator table, which names a kind for each operator. Not for: counting it, and what it costs (costs.h).
#pragma once

#include <cstdint>

namespace et::ops {

enum class WorkKind : uint8_t {
#define ET_WORK(NAME) NAME,
#define ET_WORK_ON_IMAGES(NAME) NAME,
#include "ops/work.def"
#undef ET_WORK
#undef ET_WORK_ON_IMAGES
};

constexpr bool is_on_images(WorkKind kind) {
  constexpr bool kOnImages[] = {
#define ET_WORK(NAME) false,
#define ET_WORK_ON_IMAGES(NAME) true,
#include "ops/work.def"
#undef ET_WORK
#undef ET_WORK_ON_IMAGES
  };
  return kOnImages[static_cast<uint8_t>(kind)];
}

}  // namespace et::ops
