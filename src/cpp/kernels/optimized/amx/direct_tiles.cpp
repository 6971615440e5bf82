#include "kernels/optimized/amx/direct_tiles.h"

#include <algorithm>

#include "kernels/optimized/amx/tile_instructions.h"

namespace et::kernels::optimized::amx {

ET_WITH_TILES void multiply_planes(const PlaneBlock& block) {
  configure_tiles(kTileSide, block.planes);
  const size_t image_stride = static_cast<size_t>(block.plane_slots) * sizeof(uint32_t);
  const size_t sums_stride = block.sums_stride * sizeof(float);
  for (size_t at = 0; at < block.positions; at += PlaneTiles::kPositions) {
    float* const sums = block.sums + at;
    for (size_t c = 0; c < PlaneTiles::kChannels; ++c) {
      std::fill_n(sums + c * block.sums_stride, PlaneTiles::kPositions, block.bias[c]);
    }
    ET_LOAD_TILE(0, sums, sums_stride);
    ET_LOAD_TILE(1, sums + kTileSide, sums_stride);
    ET_LOAD_TILE(2, sums + 2 * kTileSide, sums_stride);
    ET_LOAD_TILE(3, sums + 3 * kTileSide, sums_stride);
    const uint32_t* weights = block.weights;
    for (size_t s = 0; s < block.steps; ++s, weights += PlaneTiles::kWeights) {
      const uint32_t* const from = block.image + block.offsets[s] + at;
      ET_LOAD_TILE(4, weights, kTileRowBytes);
      ET_LOAD_TILE(6, from, image_stride);
      ET_MULTIPLY_BFLOAT16_TILES(0, 4, 6);
      ET_LOAD_TILE(7, from + kTileSide, image_stride);
      ET_MULTIPLY_BFLOAT16_TILES(1, 4, 7);
      ET_LOAD_TILE(6, from + 2 * kTileSide, image_stride);
      ET_MULTIPLY_BFLOAT16_TILES(2, 4, 6);
      ET_LOAD_TILE(7, from + 3 * kTileSide, image_stride);
      ET_MULTIPLY_BFLOAT16_TILES(3, 4, 7);
    }
    ET_STORE_TILE(0, sums, sums_stride);
    ET_STORE_TILE(1, sums + kTileSide, sums_stride);
    ET_STORE_TILE(2, sums + 2 * kTileSide, sums_stride);
    ET_STORE_TILE(3, sums + 3 * kTileSide, sums_stride);
  }
  release_tiles();
}

}  // namespace et::kernels::optimized::amx
