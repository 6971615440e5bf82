/// The work of Edge nodes, counted (ops/costs.h).
///
/// For: the choice between a backend and the runtime's kernels (delegation/weigh_parts.h). Not for: kernels, which read
///      it from their arguments.
#pragma once

#include <optional>
#include <string_view>

#include "ir/graph.h"
#include "ops/costs.h"

namespace et::passes {

/// Nothing for what costs nothing; of dynamic sizes the largest.
std::optional<ops::Work> work_of(const ir::Node& node);
/// Of an operator that works element by element, or a norm, and gives `result`.
std::optional<ops::Work> work_of(std::string_view op, const ir::TensorType& result);

}  // namespace et::passes
