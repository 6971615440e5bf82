#include "kernels/optimized/amx/gemm_tiles.h"

#include <algorithm>

#include "kernels/optimized/amx/tile_instructions.h"

namespace et::kernels::optimized::amx {

namespace {

using Sums = float[2 * kTileSide][2 * kTileSide];

/// Two strips of rows, kTwo, by 32 columns, to `out`.
template <bool kTwo>
ET_WITH_TILES void multiply_tiles_of(const BFloat16* left, const BFloat16* right, size_t depth, float* out,
                                     size_t out_stride, bool accumulate) {
  const size_t stride = out_stride * sizeof(float), left_stride = depth * sizeof(BFloat16);
  constexpr size_t kRightStride = kTileStripColumns * 2 * sizeof(BFloat16);
  const BFloat16* const second = left + kTileSide * depth;
  float* const below = out + kTileSide * out_stride;
  if (accumulate) {
    ET_LOAD_TILE(0, out, stride);
    ET_LOAD_TILE(1, out + kTileSide, stride);
    if (kTwo) {
      ET_LOAD_TILE(2, below, stride);
      ET_LOAD_TILE(3, below + kTileSide, stride);
    }
  } else {
    ET_CLEAR_TILE(0);
    ET_CLEAR_TILE(1);
    if (kTwo) {
      ET_CLEAR_TILE(2);
      ET_CLEAR_TILE(3);
    }
  }
  for (size_t k = 0; k < depth; k += kTileSteps, right += kTileSteps * kTileStripColumns) {
    ET_LOAD_TILE(4, left + k, left_stride);
    ET_LOAD_TILE(6, right, kRightStride);
    ET_MULTIPLY_BFLOAT16_TILES(0, 4, 6);
    ET_LOAD_TILE(7, right + 2 * kTileSide, kRightStride);
    ET_MULTIPLY_BFLOAT16_TILES(1, 4, 7);
    if (kTwo) {
      ET_LOAD_TILE(5, second + k, left_stride);
      ET_MULTIPLY_BFLOAT16_TILES(2, 5, 6);
      ET_MULTIPLY_BFLOAT16_TILES(3, 5, 7);
    }
  }
  ET_STORE_TILE(0, out, stride);
  ET_STORE_TILE(1, out + kTileSide, stride);
  if (kTwo) {
    ET_STORE_TILE(2, below, stride);
    ET_STORE_TILE(3, below + kTileSide, stride);
  }
}

}  // namespace

void multiply_tile_block(const GemmBlock<float, BFloat16>& block) {
  configure_tiles(kTileSide);
  for (size_t c = 0; c < block.columns; c += kTileStripColumns) {
    const BFloat16* const right = block.right + c * block.depth;
    const size_t columns = std::min(kTileStripColumns, block.columns - c);
    for (size_t r = 0; r < block.rows; r += 2 * kTileSide) {
      const BFloat16* const left = block.left + r * block.depth;
      const size_t rows = std::min(2 * kTileSide, block.rows - r);
      float* const out = block.out + r * block.out_stride + c;
      const auto multiply = rows > kTileSide ? &multiply_tiles_of<true> : &multiply_tiles_of<false>;
      if (rows % kTileSide == 0 && columns == kTileStripColumns) {
        multiply(left, right, block.depth, out, block.out_stride, block.accumulate);
        continue;
      }
      alignas(64) Sums sums;
      multiply(left, right, block.depth, &sums[0][0], kTileStripColumns, false);
      for (size_t i = 0; i < rows; ++i) {
        float* const to = out + i * block.out_stride;
        for (size_t j = 0; j < columns; ++j) {
          to[j] = block.accumulate ? to[j] + sums[i][j] : sums[i][j];
        }
      }
    }
  }
  release_tiles();
}

}  // namespace et::kernels::optimized::amx
