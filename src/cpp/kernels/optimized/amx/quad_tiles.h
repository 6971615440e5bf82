/// Products of unsigned rows and int8 columns by tiles (tiles.h), packed as vectors have them: columns in panels of one
/// or two tiles, quads of the depth one after another.
///
/// For: quad_loop.cpp, where has_integer_tiles(). Not for: what sums begin with and become.
///
///     amx::configure_quad_tiles(tiles.count);           // on this thread, up to release_quad_tiles()
///     const size_t top = amx::multiply_quad_tiles(tiles, first_row, sums);   // sums[r - top] are those of row r
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/optimized/amx/tiles.h"

namespace et::kernels::optimized::amx {

/// Quads of the depth that a tile has; rows that are multiplied at a time, and the columns of a panel.
inline constexpr size_t kTileQuads = kTileRowBytes / 4, kQuadBlock = 2 * kTileSide;
using QuadSums = int32_t[kQuadBlock][2 * kTileSide];

/// Rows and a panel of columns. Every step reads whole tiles: weights beyond a row's depth are 0.
struct QuadTiles {
  const uint8_t* rows;
  size_t stride;                 ///< bytes from a row to the next
  size_t count;                  ///< of rows
  size_t window_rows, row_step;  ///< a row is a window, whose rows are so many bytes apart
  size_t runs, run_step;         ///< … and have so many runs, which are so many bytes apart
  size_t steps;                  ///< of a run, kTileQuads each
  const int8_t* panel;           ///< [window_rows, runs, steps, kTileQuads, columns, 4]
  bool is_wide;                  ///< 2 * kTileSide columns, otherwise half as many
  const int8_t* next;            ///< of the next panel, of which each step …
  size_t share;                  ///< … lets the second cache fetch so many bytes
};

/// Tiles have min(rows, kTileSide) rows from here on.
void configure_quad_tiles(size_t rows);
void release_quad_tiles();

/// Sums of the rows [first, first + kQuadBlock) that there are, by tiles that were configured for `count` rows. Returns
/// the row that sums[0] belongs to: the last tile begins before `first` where fewer rows are left than it has.
size_t multiply_quad_tiles(const QuadTiles& tiles, size_t first, QuadSums& sums);

}  // namespace et::kernels::optimized::amx
