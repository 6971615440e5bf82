/// What XNNPACK's operators cost: one table for its delegate at lowering and for its kernels at load.
///
/// For: compiler/register.cpp, which answers partitioners, and the `prepare` of kernels/. Not for: the choice itself.
#pragma once

#include "ops/costs.h"

namespace et::backends::xnnpack {

inline constexpr ops::WorkCost kCostTable[] = {
#include "backends/xnnpack/costs/costs.def"
};
/// Products and softmax run as kernels without a delegate, too. None of those quantizes images at the call.
constexpr bool has_kernel(const ops::Work& work) {
  switch (work.kind) {
    case ops::WorkKind::linear:
    case ops::WorkKind::linear_row:
    case ops::WorkKind::matmul:
    case ops::WorkKind::matmul_line:
    case ops::WorkKind::softmax: return true;
    case ops::WorkKind::pooling: return false;
    default: return ops::is_on_images(work.kind) && work.numbers != ops::WorkNumbers::dynamic;
  }
}

/// It takes all columns before the next tile of rows, and reads the matrix again. Where the caches hold no such matrix,
/// rows of 2 to 200 take 41 to 50 ps a multiplication (AVX2; ours 20). Between 2^21 and 2^22 numbers a row takes a
/// fifth of a multiplication more for each. Servers with AMX have a slow third cache: 1x1 convolutions of 2^18, 2^19
/// and 2^20 numbers took 13.5, 18.3 and 30 ps there (ours 14 to 17).
inline constexpr ops::WorkCosts::Rereading kRereading = {1 << 21, 1 << 21, 0.2}, kWithAmx = {1 << 18, 1 << 20, 1.3};

/// Tiles are those of its products.
inline constexpr ops::WorkCosts kCosts = {kCostTable,
                                          {{4, 8, 4}, {5, 16, 8}, {5, 16, 8}, {7, 32, 16}, {7, 32, 64}, {6, 8, 4}},
                                          &has_kernel,
                                          1 << 22,
                                          {kRereading, kRereading, kRereading, kRereading, kWithAmx, kRereading}};

}  // namespace et::backends::xnnpack
