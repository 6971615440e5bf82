/// Kinds of work: what decides about the cost of an operator (work.def).
///
/// For: the operator table, which names a kind for each operator. Not for: counting it, and what it costs (costs.h).
#pragma once

#include <cstdint>

namespace et::ops {

enum class WorkKind : uint8_t {
#define ET_WORK(NAME) NAME,
#include "ops/work.def"
#undef ET_WORK
};

}  // namespace et::ops
