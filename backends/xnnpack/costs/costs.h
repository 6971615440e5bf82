/// What XNNPACK's operators cost: one table for its delegate at lowering and for its kernels at load.
///
/// For: compiler/register.cpp, which answers partitioners, and the `prepare` of kernels/. Not for: the choice itself.
#pragma once

#include "ops/costs.h"

namespace et::backends::xnnpack {

inline constexpr ops::WorkCost kCostTable[] = {
#include "backends/xnnpack/costs/costs.def"
};
/// Tiles are those of its products of floats. It takes all columns before the next tile of rows: where the caches hold
/// no such matrix, rows of 2 to 200 take 41 to 50 ps a multiplication (AVX2; ours 20).
inline constexpr ops::WorkCosts kCosts = {kCostTable, {{4, 8}, {5, 16}, {7, 32}, {7, 32}, {6, 8}}, true, 1 << 22};

}  // namespace et::backends::xnnpack
