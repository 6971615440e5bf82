/// Packed products (gemm.h) of BFloat16 by tiles (tiles.h).
///
/// For: gemm.cpp, where has_bfloat16_tiles(). Strips of the left operand have 16 rows, [rows, steps]; those of the
/// right one 32 columns, in pairs of steps as for MultiplyPairs. The depth of both is a multiple of 32, filled with
/// zeros. Each step multiplies exactly and adds in float; subnormal numbers count as 0.
#pragma once

#include "kernels/optimized/amx/tiles.h"
#include "kernels/optimized/vec/gemm_block.h"

namespace et::kernels::optimized::amx {

inline constexpr size_t kTileStripRows = kTileSide, kTileStripColumns = 2 * kTileSide,
                        kTileSteps = kTileRowBytes / sizeof(BFloat16);

void multiply_tile_block(const GemmBlock<float, BFloat16>& block);

}  // namespace et::kernels::optimized::amx
