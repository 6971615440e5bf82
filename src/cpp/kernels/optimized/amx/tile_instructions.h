/// The instructions of tiles (tiles.h).
///
/// For: the .cpp files whose inner loops they are, built with ET_BUILD_AMX. Functions with such an instruction are
/// ET_WITH_TILES. Of the eight tiles 0 to 3 are sums, 4 and 5 rows of the left operand, 6 and 7 of the right one.
///
/// With ET_EMULATE_TILES, which builds with sanitizers define, they are plain C++: every access to memory is checked,
/// and processors without tiles run the code around them.
#pragma once

#include "kernels/optimized/amx/tile_shapes.h"

#ifdef ET_EMULATE_TILES
#include "kernels/optimized/amx/emulated_tiles.h"

#define ET_WITH_TILES __attribute__((target("avx512f,avx512vl,avx512bw")))
#define ET_CONFIGURE_TILES(shape) emulated_tiles().configure(shape)
#define ET_RELEASE_TILES() emulated_tiles().release()
#define ET_LOAD_TILE(tile, from, stride) emulated_tiles().load(tile, from, stride)
#define ET_STORE_TILE(tile, to, stride) emulated_tiles().store(tile, to, stride)
#define ET_CLEAR_TILE(tile) emulated_tiles().clear(tile)
#define ET_MULTIPLY_INTEGER_TILES(sum, left, right) emulated_tiles().multiply_integers(sum, left, right)
#define ET_MULTIPLY_BFLOAT16_TILES(sum, left, right) emulated_tiles().multiply_bfloat16(sum, left, right)
#else

#define ET_WITH_TILES __attribute__((target("amx-tile,amx-int8,amx-bf16,avx512f,avx512vl,avx512bw")))
#define ET_CONFIGURE_TILES(shape) __asm__ volatile("ldtilecfg %0" ::"m"(shape))
#define ET_RELEASE_TILES() __asm__ volatile("tilerelease" ::)

// GCC's own macros, up to version 12, do not say that a tile is loaded from memory.
#define ET_LOAD_TILE(tile, from, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile::"r"(from), "r"(stride) : "memory")
#define ET_STORE_TILE(tile, to, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
#define ET_CLEAR_TILE(tile) __asm__ volatile("tilezero %%tmm" #tile::)
/// Tile `sum` += tile `left` * tile `right`, uint8 and int8 to int32, or BFloat16 to float.
#define ET_MULTIPLY_INTEGER_TILES(sum, left, right) \
  __asm__ volatile("tdpbusd %%tmm" #right ", %%tmm" #left ", %%tmm" #sum::)
#define ET_MULTIPLY_BFLOAT16_TILES(sum, left, right) \
  __asm__ volatile("tdpbf16ps %%tmm" #right ", %%tmm" #left ", %%tmm" #sum::)
#endif

namespace et::kernels::optimized::amx {

/// What this thread's tiles hold from here on: sums and left operands have so many rows, left operands so many groups
/// of 4 bytes in a row, and right operands as many rows.
ET_WITH_TILES inline void configure_tiles(size_t rows, size_t depth = kTileSide) {
  TileShapes shape;
  for (size_t tile = 0; tile < TileShapes::kTiles; ++tile) {
    const bool is_left = tile == 4 || tile == 5;
    shape.bytes[tile] = static_cast<uint16_t>(is_left ? 4 * depth : kTileRowBytes);
    shape.rows[tile] = static_cast<uint8_t>(tile < 6 ? rows : depth);
  }
  ET_CONFIGURE_TILES(shape);
}
ET_WITH_TILES inline void release_tiles() { ET_RELEASE_TILES(); }

}  // namespace et::kernels::optimized::amx
