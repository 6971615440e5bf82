/// The processor's tiles (AMX of Intel's servers), which Highway does not have: whether this process may use them, and their instructions.
///
/// For: tile_product.cpp, gemm_tiles.cpp. Not for: anything that Highway has.
///
/// ET_HAS_TILES is 1 where the compiler knows them. Functions with such an instruction are ET_WITH_TILES. Of the eight tiles 0 to 3 are
/// sums, 4 and 5 rows of the left operand, 6 and 7 of the right one.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#define ET_HAS_TILES 1
#else
#define ET_HAS_TILES 0
#endif

namespace et::kernels::optimized {

/// True where the processor multiplies tiles of int8, or of BFloat16, and the system lets this process use them, which is asked
/// once. Both have AVX-512 then.
bool has_integer_tiles();
bool has_bfloat16_tiles();

}  // namespace et::kernels::optimized

#if ET_HAS_TILES

#define ET_WITH_TILES __attribute__((target("amx-tile,amx-int8,amx-bf16,avx512f,avx512vl,avx512bw")))

// GCC's own macros, up to version 12, do not say that a tile is loaded from memory.
#define ET_LOAD_TILE(tile, from, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile::"r"(from), "r"(stride) : "memory")
#define ET_STORE_TILE(tile, to, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
#define ET_CLEAR_TILE(tile) __asm__ volatile("tilezero %%tmm" #tile::)
/// Tile `sum` += tile `left` * tile `right`, int8 to int32 or BFloat16 to float.
#define ET_MULTIPLY_INTEGER_TILES(sum, left, right) \
  __asm__ volatile("tdpbssd %%tmm" #right ", %%tmm" #left ", %%tmm" #sum::)
#define ET_MULTIPLY_BFLOAT16_TILES(sum, left, right) \
  __asm__ volatile("tdpbf16ps %%tmm" #right ", %%tmm" #left ", %%tmm" #sum::)

namespace et::kernels::optimized {

/// Rows of a tile, and bytes of each.
inline constexpr size_t kTileSide = 16, kTileRowBytes = 64;

/// What this thread's tiles hold from here on: sums and left operands have so many rows, left operands so many groups of 4 bytes in
/// a row, and right operands as many rows.
ET_WITH_TILES inline void configure_tiles(size_t rows, size_t depth = kTileSide) {
  struct alignas(64) {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  } shape;
  for (size_t tile = 0; tile < 8; ++tile) {
    const bool is_left = tile == 4 || tile == 5;
    shape.bytes[tile] = static_cast<uint16_t>(is_left ? 4 * depth : kTileRowBytes);
    shape.rows[tile] = static_cast<uint8_t>(tile < 6 ? rows : depth);
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(shape));
}
ET_WITH_TILES inline void release_tiles() { __asm__ volatile("tilerelease" ::); }

}  // namespace et::kernels::optimized
#endif
