/// The instructions of tiles in plain C++, for builds with sanitizers: what a tile reads and writes is checked as any
/// other access is.
///
/// For: tile_instructions.h. Not for: computing anything in earnest; a tile takes thousands of instructions here.
///
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: LDTILECFG, TILELOADD, TILESTORED,
///         TDPBUSD, TDPBF16PS.
#pragma once

#include <cstdlib>
#include <cstring>

#include "base/half.h"
#include "kernels/optimized/amx/tile_shapes.h"

namespace et::kernels::optimized::amx {

/// The tiles of a thread. Tiles that are used before configure(), or with shapes that do not belong together, end the
/// process, as the processor would.
class EmulatedTiles {
 public:
  void configure(const TileShapes& shapes) {
    shapes_ = shapes;
    std::memset(tiles_, 0, sizeof(tiles_));
    require(shapes.palette == 1);
    for (size_t tile = 0; tile < TileShapes::kTiles; ++tile) {
      require(shapes.rows[tile] <= kTileSide && shapes.bytes[tile] <= kTileRowBytes && shapes.bytes[tile] % 4 == 0);
    }
  }
  void release() { shapes_ = TileShapes{0}; }

  void load(size_t tile, const void* from, size_t stride) {
    clear(tile);
    for (size_t row = 0; row < shapes_.rows[tile]; ++row) {
      std::memcpy(tiles_[tile][row], static_cast<const char*>(from) + row * stride, shapes_.bytes[tile]);
    }
  }
  void store(size_t tile, void* to, size_t stride) const {
    require(is_configured(tile));
    for (size_t row = 0; row < shapes_.rows[tile]; ++row) {
      std::memcpy(static_cast<char*>(to) + row * stride, tiles_[tile][row], shapes_.bytes[tile]);
    }
  }
  void clear(size_t tile) {
    require(is_configured(tile));
    std::memset(tiles_[tile], 0, kTileBytes);
  }

  void multiply_integers(size_t sum, size_t left, size_t right) {
    multiply<int32_t, uint8_t, int8_t>(sum, left, right, [](int32_t total, const uint8_t* a, const int8_t* b) {
      auto wrapped = static_cast<uint32_t>(total);
      for (size_t i = 0; i < 4; ++i) {
        wrapped += static_cast<uint32_t>(int32_t{a[i]} * int32_t{b[i]});
      }
      return static_cast<int32_t>(wrapped);
    });
  }
  void multiply_bfloat16(size_t sum, size_t left, size_t right) {
    multiply<float, BFloat16, BFloat16>(sum, left, right, [](float total, const BFloat16* a, const BFloat16* b) {
      return total + (static_cast<float>(a[0]) * static_cast<float>(b[0]) +
                      static_cast<float>(a[1]) * static_cast<float>(b[1]));
    });
  }

 private:
  static void require(bool is_so) {
    if (!is_so) {
      std::abort();
    }
  }
  bool is_configured(size_t tile) const { return shapes_.palette == 1 && shapes_.rows[tile] > 0; }

  /// sum[m, n] = add(sum[m, n], the four bytes left[m, k], the four bytes right[k, n]) for each k in turn.
  template <typename Sum, typename Left, typename Right, typename Add>
  void multiply(size_t sum, size_t left, size_t right, Add add) {
    require(is_configured(sum) && is_configured(left) && is_configured(right) &&
            shapes_.rows[sum] == shapes_.rows[left] && shapes_.bytes[sum] == shapes_.bytes[right] &&
            shapes_.bytes[left] == 4 * shapes_.rows[right]);
    for (size_t m = 0; m < shapes_.rows[sum]; ++m) {
      for (size_t k = 0; k < shapes_.rows[right]; ++k) {
        Left a[4 / sizeof(Left)];
        Right b[4 / sizeof(Right)];
        std::memcpy(a, tiles_[left][m] + 4 * k, 4);
        for (size_t n = 0; n < shapes_.bytes[sum] / 4u; ++n) {
          std::memcpy(b, tiles_[right][k] + 4 * n, 4);
          Sum total;
          std::memcpy(&total, tiles_[sum][m] + 4 * n, 4);
          total = add(total, a, b);
          std::memcpy(tiles_[sum][m] + 4 * n, &total, 4);
        }
      }
    }
  }

  TileShapes shapes_{0};
  unsigned char tiles_[TileShapes::kTiles][kTileSide][kTileRowBytes] = {};
};

inline EmulatedTiles& emulated_tiles() {
  static thread_local EmulatedTiles tiles;
  return tiles;
}

}  // namespace et::kernels::optimized::amx
