/// Clamps: operators that limit elements to a range of numbers (ops::kClamps), and what several in a row are together.
///
/// For: passes, delegation and backends that make a clamp part of the operator before it. Not for: clamps to tensors.
///
///     std::optional<Clamp> whole = clamp_of(relu);  // [0, inf]
///     whole = whole->then(*clamp_of(hardtanh));     // [0, 1]
#pragma once

#include <limits>
#include <optional>

#include "ir/graph.h"

namespace et::passes {

bool is_clamp(const ir::Node& node);

/// The bounds of a clamp as its arguments say them; none where it is open.
struct Bounds {
  ir::Argument min, max;
};
/// Those of a node; nothing for one that is no clamp.
std::optional<Bounds> bounds_of(const ir::Node& node);

/// A range of numbers, min <= max.
struct Clamp {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();

  /// This clamp, and `next` of its result.
  Clamp then(const Clamp& next) const;
};
/// The clamp that a node is. Nothing for other nodes, for bounds that are computed, and for a lower one above the upper
/// one.
std::optional<Clamp> clamp_of(const ir::Node& node);

}  // namespace et::passes
