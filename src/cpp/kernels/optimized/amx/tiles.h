/// The processor's tiles (AMX of Intel's servers), which Highway does not have: whether this process may use them, and
/// their sizes.
///
/// For: whoever chooses between tiles and vectors, or packs for tiles. Not for: the instructions (tile_instructions.h);
///      anything that Highway has.
#pragma once

#include <cstddef>

// Whether the compiler knows them.
#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#define ET_HAS_TILES 1
#else
#define ET_HAS_TILES 0
#endif

namespace et::kernels::optimized::amx {

/// True where the processor multiplies tiles of int8, or of BFloat16, and the system lets this process use them, which
/// is asked once. Both have AVX-512 then.
bool has_integer_tiles();
bool has_bfloat16_tiles();

/// Rows of a tile, bytes of each, and bytes of all.
inline constexpr size_t kTileSide = 16, kTileRowBytes = 64, kTileBytes = kTileSide * kTileRowBytes;

}  // namespace et::kernels::optimized::amx
