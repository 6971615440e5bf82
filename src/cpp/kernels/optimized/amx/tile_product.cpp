#include "kernels/optimized/amx/tile_product.h"

#include <algorithm>

#include "kernels/optimized/amx/tile_instructions.h"

#if !defined(__clang__)  // what immintrin.h leaves undefined on purpose (GCC's bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

namespace et::kernels::optimized::amx {

size_t tile_strip(const TileProduct& product) {
  constexpr size_t kBytes = 32 << 10;
  return std::max<size_t>(kBytes / std::max<size_t>(product.in_stride * TileProduct::kBlock, 1), 1);
}
size_t tile_strips(const TileProduct& product) {
  const size_t strip = tile_strip(product);
  return (product.blocks() + strip - 1) / strip;
}

namespace {

using Sums = int32_t[TileProduct::kBlock][TilePacking::kColumns];

/// Rows at `first` and, kTwo, at `second` by the tiles of a panel.
template <bool kTwo, bool kWide>
ET_WITH_TILES inline void multiply_block(const TileProduct& p, const int8_t* first, const int8_t* second,
                                         const int8_t* weights, Sums& sums) {
  const size_t steps = p.packing.steps(), stride = p.in_stride;
  constexpr size_t kRow = TilePacking::kStep;
  ET_CLEAR_TILE(0);
  if (kWide) ET_CLEAR_TILE(1);
  if (kTwo) ET_CLEAR_TILE(2);
  if (kTwo && kWide) ET_CLEAR_TILE(3);
  for (size_t run = 0; run < p.packing.runs; ++run) {
    const ptrdiff_t offset = p.offsets[run];
    for (size_t step = 0; step < steps; ++step) {
      const auto at = offset + static_cast<ptrdiff_t>(step * TilePacking::kStep);
      ET_LOAD_TILE(4, first + at, stride);
      ET_LOAD_TILE(6, weights, kRow);
      ET_MULTIPLY_INTEGER_TILES(0, 4, 6);
      if (kTwo) {
        ET_LOAD_TILE(5, second + at, stride);
        ET_MULTIPLY_INTEGER_TILES(2, 5, 6);
      }
      if (kWide) {
        ET_LOAD_TILE(7, weights + kTileBytes, kRow);
        ET_MULTIPLY_INTEGER_TILES(1, 4, 7);
        if (kTwo) ET_MULTIPLY_INTEGER_TILES(3, 5, 7);
      }
      weights += (kWide ? 2 : 1) * kTileBytes;
    }
  }
  constexpr size_t kSumRow = sizeof(sums[0]);
  ET_STORE_TILE(0, &sums[0][0], kSumRow);
  if (kWide) ET_STORE_TILE(1, &sums[0][kTileSide], kSumRow);
  if (kTwo) ET_STORE_TILE(2, &sums[kTileSide][0], kSumRow);
  if (kTwo && kWide) ET_STORE_TILE(3, &sums[kTileSide][kTileSide], kSumRow);
}

/// What 16 columns' sums become: units of the output, bounded, rounded to the nearest even integer.
struct Requantization {
  __m512i bias;
  __m512 scale;
};

ET_WITH_TILES inline __m128i requantize(const Requantization& r, const int32_t* sums, __m512 low, __m512 high,
                                        __m512i zero_point) {
  const __m512i sum = _mm512_add_epi32(_mm512_load_si512(sums), r.bias);
  const __m512 units = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), r.scale);
  const __m512 bounded = _mm512_min_ps(_mm512_max_ps(units, low), high);
  return _mm512_cvtepi32_epi8(_mm512_add_epi32(_mm512_cvtps_epi32(bounded), zero_point));
}

/// Sums [begin, end) of a block whose first row is `row` to the output, columns from `column` on.
template <bool kWide>
ET_WITH_TILES inline void write_block(const TileProduct& p, const Sums& sums, size_t row, size_t begin, size_t end,
                                      size_t column) {
  const size_t left = p.packing.columns - column;
  const auto mask = [&](size_t from) {
    return static_cast<__mmask16>(left >= from + kTileSide ? 0xFFFF : left > from ? (1u << (left - from)) - 1 : 0);
  };
  const __mmask16 first_mask = mask(0), second_mask = kWide ? mask(kTileSide) : __mmask16{0};
  const Requantization first = {_mm512_loadu_si512(p.biases + column), _mm512_loadu_ps(p.scales + column)};
  const Requantization second = kWide ? Requantization{_mm512_loadu_si512(p.biases + column + kTileSide),
                                                       _mm512_loadu_ps(p.scales + column + kTileSide)}
                                      : first;
  const __m512 low = _mm512_set1_ps(p.low), high = _mm512_set1_ps(p.high);
  const __m512i zero_point = _mm512_set1_epi32(p.zero_point);
  size_t line = (row + begin) / p.pitch, at = (row + begin) % p.pitch;
  int8_t* to = p.out + (line * p.kept + std::min(at, p.kept)) * p.packing.columns + column;
  for (size_t i = begin; i < end; ++i) {
    if (at < p.kept) {
      _mm_mask_storeu_epi8(to, first_mask, requantize(first, &sums[i][0], low, high, zero_point));
      if (kWide) {
        _mm_mask_storeu_epi8(to + kTileSide, second_mask,
                             requantize(second, &sums[i][kTileSide], low, high, zero_point));
      }
      to += p.packing.columns;
    }
    at = at + 1 == p.pitch ? 0 : at + 1;
  }
}

/// A block of rows by a panel. Blocks overlap where the rows are no multiple of them, so that all have whole tiles.
template <bool kWide>
ET_WITH_TILES void block_by_panel(const TileProduct& p, size_t block, size_t panel) {
  alignas(64) Sums sums;
  const int8_t* const weights = p.weights + panel * 2 * p.packing.runs * p.packing.steps() * kTileBytes;
  const auto row_at = [&](size_t row) {
    return row >= p.tail_row ? p.tail + (row - p.tail_row) * p.in_stride : p.in + row * p.in_stride;
  };
  const size_t row = block * TileProduct::kBlock, column = panel * TilePacking::kColumns;
  const size_t left = std::min(p.rows - row, TileProduct::kBlock);
  if (left <= kTileSide) {  // one tile, of the last rows
    const size_t first = p.rows >= kTileSide ? p.rows - kTileSide : 0;
    multiply_block<false, kWide>(p, row_at(first), nullptr, weights, sums);
    write_block<kWide>(p, sums, first, row - first, p.rows - first, column);
    return;
  }
  const size_t second = row + left - kTileSide;
  multiply_block<true, kWide>(p, row_at(row), row_at(second), weights, sums);
  write_block<kWide>(p, sums, row, 0, kTileSide, column);
  write_block<kWide>(p, sums, second - kTileSide, row + kTileSide - (second - kTileSide), 2 * kTileSide, column);
}

}  // namespace

void multiply_tiles(const TileProduct& p, size_t begin, size_t end) {
  configure_tiles(std::min(p.rows, kTileSide));
  const size_t panels = p.packing.panels(), strip = tile_strip(p);
  for (size_t i = begin; i < end; ++i) {
    const size_t panel = i % panels, first = i / panels * strip;
    const bool is_wide = panel * 2 + 1 < p.packing.tiles();
    for (size_t block = first; block < std::min(first + strip, p.blocks()); ++block) {
      is_wide ? block_by_panel<true>(p, block, panel) : block_by_panel<false>(p, block, panel);
    }
  }
  release_tiles();
}

}  // namespace et::kernels::optimized::amx
