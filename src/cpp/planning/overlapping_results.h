/// Which results may overlap the input that they are made from, and how far off they must begin.
///
/// For: lifetimes.cpp. It knows kernels/cortex_m by what ops/image_windows.h says: a result that begins too near is
/// refused at load.
#pragma once

#include <optional>

#include "ir/graph.h"
#include "ops/image_windows.h"

namespace et::planning {

struct OverlappingResult {
  const ir::Value* input;
  ops::Distances least;
};

/// nullopt: the result of the node, which has one, lies apart from all that the node reads.
std::optional<OverlappingResult> overlapping_result(const ir::Node& node);

}  // namespace et::planning
