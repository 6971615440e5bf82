/// The processor's tiles (AMX of Intel's servers), which Highway does not have: whether this process may use them, and
/// their sizes.
///
/// For: whoever chooses between tiles and vectors, or packs for tiles. Not for: the instructions (tile_instructions.h);
///      anything that Highway has.
#pragma once

#include <cstddef>

namespace et::kernels::optimized::amx {

/// True where the processor multiplies tiles of int8, or of BFloat16, and the system lets this process use them, which
/// is read once. Both have AVX-512 then. A build without tiles (ET_BUILD_AMX=OFF) says no.
bool has_integer_tiles();
bool has_bfloat16_tiles();

/// Rows of a tile, bytes of each, and bytes of all.
inline constexpr size_t kTileSide = 16, kTileRowBytes = 64, kTileBytes = kTileSide * kTileRowBytes;

}  // namespace et::kernels::optimized::amx
