/// Direct convolutions of BFloat16 by tiles (tiles.h): slots of a plane are pairs of channels, so that of some planes
/// 16 positions each make the right operand of a tile where they stand.
///
/// For: direct_convolution.cpp, where has_bfloat16_tiles(). Not for: fewer planes than kLeastPlanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/rounding.h"
#include "kernels/optimized/amx/tiles.h"

namespace et::kernels::optimized::amx {

/// How the planes of an image are shared out to tiles: as many to each as there can be, the last ones moved to the
/// front until they are as many. Weights of planes that come a second time are 0.
struct PlaneTiles {
  static constexpr size_t kChannels = kTileSide;       ///< outputs of a tile
  static constexpr size_t kPositions = 4 * kTileSide;  ///< of four tiles, which are computed at a time
  static constexpr int64_t kLeastPlanes = 4;
  static constexpr int64_t kMostPlanes = kTileRowBytes / sizeof(uint32_t);  ///< of a tile
  static constexpr size_t kWeights = kTileBytes / sizeof(uint32_t);  ///< slots of a tile of weights, [channels, planes]

  int64_t planes;

  int64_t tiles() const { return divide_up(planes, kMostPlanes); }
  int64_t of_tile() const { return divide_up(planes, tiles()); }
  int64_t first_of(int64_t tile) const {
    const int64_t first = tile * of_tile();
    return first + of_tile() > planes ? planes - of_tile() : first;
  }
};

/// Sums of kChannels channels at positions [0, positions), rounded up to whole kPositions.
struct PlaneBlock {
  const uint32_t* image;    ///< the slots of the first position
  int64_t plane_slots;      ///< from plane to plane
  const uint32_t* weights;  ///< [steps] tiles
  const int64_t* offsets;   ///< [steps] of the first plane, from a position's first slot
  size_t steps;
  size_t planes;  ///< of each tile
  const float* bias;
  float* sums;  ///< [kChannels, sums_stride]
  size_t sums_stride;
  size_t positions;
};
void multiply_planes(const PlaneBlock& block);

}  // namespace et::kernels::optimized::amx
