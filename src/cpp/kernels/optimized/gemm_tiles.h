/// Packed products (gemm.h) of BFloat16 by tiles (tiles.h).
///
/// For: gemm.cpp, where has_bfloat16_tiles(). Strips of the left operand have 16 rows, [rows, steps]; those of the right one 32 columns,
/// in pairs of steps as for MultiplyPairs. The depth of both is a multiple of 32, filled with zeros.
/// Each step multiplies exactly and adds in float; subnormal numbers count as 0.
#pragma once

#include "kernels/optimized/gemm_pairs.h"

namespace et::kernels::optimized {

inline constexpr size_t kTileStripRows = 16, kTileStripColumns = 32, kTileSteps = 32;

void multiply_tile_block(const GemmBlock<float, BFloat16>& block);

/// out[j, i] = in[i, j] of pairs: [rows, columns] to [columns, rows], both multiples of 4. It turns strips of steps side by side into
/// strips of pairs, and back.
void transpose_pairs(const BFloat16* in, size_t rows, size_t columns, BFloat16* out);

}  // namespace et::kernels::optimized
