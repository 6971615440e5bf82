/// Products of int8 by tiles (AMX of Intel's servers): one instruction adds the products of 16 rows and 16 columns, 64
/// inputs each, to sums of 32 bits, sixteen times what one of AVX512-VNNI does.
///
/// For: tile_convolution.cpp. Not for: processors without, where has_integer_tiles() (tiles.h) is false; what the
///      arguments of an operator mean.
///
///     const TilePacking packing{channels, runs, run_bytes};
///     to[packing.place(channel, run, step)] = …;                                // once
///     multiply_tiles(product, 0, tile_strips(product) * packing.panels());      // at each call; parts of it on any
///     thread
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/optimized/amx/tiles.h"

namespace et::kernels::optimized::amx {

/// How the weights of a product are packed: columns in panels of two tiles. What meets an output stands in runs of
/// bytes that lie side by side in the input, each multiplied in steps of 64 bytes. Behind a run's end stand zeros.
struct TilePacking {
  static constexpr size_t kStep = kTileRowBytes;     ///< bytes of an input that a tile has
  static constexpr size_t kColumns = 2 * kTileSide;  ///< of a panel; the last one may have one tile only

  size_t columns;  ///< outputs for each row
  size_t runs;
  size_t run_bytes;

  size_t steps() const { return (run_bytes + kStep - 1) / kStep; }
  size_t tiles() const { return (columns + kTileSide - 1) / kTileSide; }  ///< side by side
  size_t panels() const { return (columns + kColumns - 1) / kColumns; }
  size_t padded_columns() const { return tiles() * kTileSide; }
  size_t nbytes() const { return tiles() * runs * steps() * kTileBytes; }
  /// A few steps take less time than writing their sums does, so that they may hold more zeros.
  bool is_worth_its_zeros() const { return (runs * steps() <= 4 ? 8 : 4) * run_bytes >= steps() * kStep; }

  /// Where the first weight of a column for a step of a run goes; four stand side by side, the next four 64 bytes
  /// further on.
  size_t place(size_t column, size_t run, size_t step) const {
    const size_t panel = column / kColumns, within = column % kColumns;
    const size_t wide = panel * 2 + 1 < tiles() ? 2 : 1;  // tiles of the panel
    const size_t before = panel * 2 * runs * steps() + (run * steps() + step) * wide + within / kTileSide;
    return before * kTileBytes + within % kTileSide * 4;
  }
};

/// A product whose weights are packed. Row r of the input begins at `in + r * in_stride`. From `rows_from_tail` on rows
/// are read from `tail`, a copy of the last rows with room behind it, since every step reads 64 bytes.
struct TileProduct {
  TilePacking packing;
  const int8_t* weights;
  const ptrdiff_t* offsets;  ///< [runs], from a row's begin
  const int32_t* biases;     ///< [padded_columns()]
  const float* scales;       ///< [padded_columns()] of the sums, in units of the output's
  float low, high;           ///< bounds of the output, less its zero point
  int32_t zero_point;

  // Of a call.
  const int8_t* in;
  size_t in_stride;
  size_t rows;
  size_t tail_row;
  const int8_t* tail;
  int8_t* out;   ///< [rows that are kept, columns]
  size_t pitch;  ///< of each so many rows …
  size_t kept;   ///< … the first so many have an output

  size_t blocks() const { return (rows + kBlock - 1) / kBlock; }
  static constexpr size_t kBlock = 2 * kTileSide;  ///< rows that are multiplied at a time
};

/// Blocks of rows that stay in the first cache while all columns meet them, and strips of so many.
size_t tile_strip(const TileProduct& product);
size_t tile_strips(const TileProduct& product);

/// Strips by panels [begin, end), a strip's panels one after another.
void multiply_tiles(const TileProduct& product, size_t begin, size_t end);

}  // namespace et::kernels::optimized::amx
