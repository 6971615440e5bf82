// Rows in tiles of nearly one height, compiled once a target. Included inside the target's pass only.

#if defined(ET_KERNELS_OPTIMIZED_EVEN_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_EVEN_TILES_INL_H_
#undef ET_KERNELS_OPTIMIZED_EVEN_TILES_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_EVEN_TILES_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "base/rounding.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::HWY_NAMESPACE {

/// Calls `multiply(height, first_row)` for tiles that cover `rows`, as few of at most kMost rows (1 to 8) as possible;
/// heights differ by one at most. A height is a std::integral_constant, so that a tile's sums stay in registers.
template <size_t kMost, class Multiply>
HWY_INLINE void for_even_tiles(size_t rows, const Multiply& multiply) {
  static_assert(kMost >= 1 && kMost <= 8, "a case for each height");
  const size_t tiles = divide_up(rows, kMost);
  size_t row = 0;
  for (size_t t = 0; t < tiles; ++t) {
    const size_t height = (rows - row) / (tiles - t);
    switch (height) {
      case 1: multiply(std::integral_constant<size_t, 1>(), row); break;
      case 2: multiply(std::integral_constant<size_t, HWY_MIN(2, kMost)>(), row); break;
      case 3: multiply(std::integral_constant<size_t, HWY_MIN(3, kMost)>(), row); break;
      case 4: multiply(std::integral_constant<size_t, HWY_MIN(4, kMost)>(), row); break;
      case 5: multiply(std::integral_constant<size_t, HWY_MIN(5, kMost)>(), row); break;
      case 6: multiply(std::integral_constant<size_t, HWY_MIN(6, kMost)>(), row); break;
      case 7: multiply(std::integral_constant<size_t, HWY_MIN(7, kMost)>(), row); break;
      default: multiply(std::integral_constant<size_t, HWY_MIN(8, kMost)>(), row); break;
    }
    row += height;
  }
}

}  // namespace et::kernels::optimized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
