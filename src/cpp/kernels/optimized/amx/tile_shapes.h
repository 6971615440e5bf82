/// The sizes of tiles (tiles.h) as the processor reads them.
///
/// For: tile_instructions.h. Not for: anything else.
#pragma once

#include <cstdint>

#include "kernels/optimized/amx/tiles.h"

namespace et::kernels::optimized::amx {

/// The operand of LDTILECFG.
struct alignas(64) TileShapes {
  static constexpr size_t kTiles = 8;

  uint8_t palette = 1;  ///< 0: no tiles
  uint8_t start = 0, reserved[14] = {};
  uint16_t bytes[16] = {};  ///< of each row
  uint8_t rows[16] = {};
};

}  // namespace et::kernels::optimized::amx
