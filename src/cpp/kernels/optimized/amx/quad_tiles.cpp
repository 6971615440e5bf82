#include "kernels/optimized/amx/quad_tiles.h"

#include <algorithm>

#include "kernels/optimized/amx/tile_instructions.h"

namespace et::kernels::optimized::amx {
namespace {

/// Rows at `first` and, kTwo, at `second` by the tiles of a panel; sums of the second ones go to `below`.
template <bool kTwo, bool kWide>
ET_WITH_TILES void multiply_rows(const QuadTiles& t, const uint8_t* first, const uint8_t* second, int32_t* sums,
                                 int32_t* below) {
  constexpr size_t kColumns = kWide ? 2 * kTileSide : kTileSide, kPanelRow = 4 * kColumns;
  constexpr size_t kSumRow = sizeof(QuadSums) / kQuadBlock;
  const size_t stride = t.stride;
  ET_CLEAR_TILE(0);
  if (kWide) ET_CLEAR_TILE(1);
  if (kTwo) ET_CLEAR_TILE(2);
  if (kTwo && kWide) ET_CLEAR_TILE(3);
  const int8_t* weights = t.panel;
  const int8_t* next = t.next;
  for (size_t i = 0; i < t.window_rows; ++i) {
    for (size_t j = 0; j < t.runs; ++j) {
      size_t at = i * t.row_step + j * t.run_step;
      for (size_t step = 0; step < t.steps; ++step, at += kTileRowBytes) {
        ET_LOAD_TILE(4, first + at, stride);
        ET_LOAD_TILE(6, weights, kPanelRow);
        ET_MULTIPLY_INTEGER_TILES(0, 4, 6);
        if (kTwo) {
          ET_LOAD_TILE(5, second + at, stride);
          ET_MULTIPLY_INTEGER_TILES(2, 5, 6);
        }
        if (kWide) {
          ET_LOAD_TILE(7, weights + kTileRowBytes, kPanelRow);
          ET_MULTIPLY_INTEGER_TILES(1, 4, 7);
          if (kTwo) ET_MULTIPLY_INTEGER_TILES(3, 5, 7);
        }
        for (size_t byte = 0; byte < t.share; byte += 64) {
          __builtin_prefetch(next + byte, 0, 2);
        }
        next += t.share;
        weights += kTileQuads * kPanelRow;
      }
    }
  }
  ET_STORE_TILE(0, sums, kSumRow);
  if (kWide) ET_STORE_TILE(1, sums + kTileSide, kSumRow);
  if (kTwo) ET_STORE_TILE(2, below, kSumRow);
  if (kTwo && kWide) ET_STORE_TILE(3, below + kTileSide, kSumRow);
}

}  // namespace

void configure_quad_tiles(size_t rows) { configure_tiles(std::min(rows, kTileSide)); }
void release_quad_tiles() { release_tiles(); }

size_t multiply_quad_tiles(const QuadTiles& t, size_t first, QuadSums& sums) {
  const size_t left = std::min(t.count - first, kQuadBlock);
  const auto row_at = [&](size_t row) { return t.rows + row * t.stride; };
  if (left <= kTileSide) {
    const size_t top = t.count - std::min(t.count, kTileSide);
    const auto multiply = t.is_wide ? &multiply_rows<false, true> : &multiply_rows<false, false>;
    multiply(t, row_at(top), nullptr, &sums[0][0], nullptr);
    return top;
  }
  const size_t below = left - kTileSide;  // the second tile may overlap the first
  const auto multiply = t.is_wide ? &multiply_rows<true, true> : &multiply_rows<true, false>;
  multiply(t, row_at(first), row_at(first + below), &sums[0][0], &sums[below][0]);
  return first;
}

}  // namespace et::kernels::optimized::amx
