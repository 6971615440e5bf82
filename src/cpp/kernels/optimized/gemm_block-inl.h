// The tiles of a block of a packed product (gemm.cpp, gemm_pairs.cpp), once for each target.

#if defined(ET_KERNELS_OPTIMIZED_GEMM_BLOCK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_GEMM_BLOCK_INL_H
#undef ET_KERNELS_OPTIMIZED_GEMM_BLOCK_INL_H
#else
#define ET_KERNELS_OPTIMIZED_GEMM_BLOCK_INL_H
#endif

#include <type_traits>

#include <hwy/highway.h>

#include "kernels/optimized/gemm_pairs.h"
#include "kernels/portable/arithmetic.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

/// A tile of kTileRows x 2 vectors of sums, with the operands, fills the registers: 32 of 64 bytes or 16 of 32 bytes.
constexpr size_t kTileRows = HWY_MAX_BYTES >= 64 ? 12 : 6;

/// `Tile::multiply<R>`, R the rows that are left: all of a strip's, two thirds or a third of them.
template <class Tile, class P, class T>
HWY_INLINE void multiply_rows(size_t rows, const P* left, const P* right, size_t depth, T* out, size_t out_stride,
                              bool accumulate) {
  if (rows > kTileRows / 3 * 2) {
    Tile::template multiply<kTileRows>(left, right, depth, out, out_stride, accumulate);
  } else if (rows > kTileRows / 3) {
    Tile::template multiply<kTileRows / 3 * 2>(left, right, depth, out, out_stride, accumulate);
  } else {
    Tile::template multiply<kTileRows / 3>(left, right, depth, out, out_stride, accumulate);
  }
}

template <class Tile, class T, class P>
HWY_INLINE void multiply_block(const GemmBlock<T, P>& block) {
  const size_t width = 2 * hwy::HWY_NAMESPACE::Lanes(hwy::HWY_NAMESPACE::ScalableTag<T>());
  for (size_t c = 0; c < block.columns; c += width) {
    const P* const right = block.right + c * block.depth;
    const size_t columns = HWY_MIN(width, block.columns - c);
    for (size_t r = 0; r < block.rows; r += kTileRows) {
      const P* const left = block.left + r * block.depth;
      const size_t rows = HWY_MIN(kTileRows, block.rows - r);
      T* const out = block.out + r * block.out_stride + c;
      if (rows % (kTileRows / 3) == 0 && columns == width) {
        multiply_rows<Tile>(rows, left, right, block.depth, out, block.out_stride, block.accumulate);
        continue;
      }
      HWY_ALIGN T tile[kTileRows * 2 * (HWY_MAX_BYTES / sizeof(T))];
      multiply_rows<Tile>(rows, left, right, block.depth, tile, width, false);
      for (size_t i = 0; i < rows; ++i) {
        T* const to = out + i * block.out_stride;
        for (size_t j = 0; j < columns; ++j) {
          const T before = block.accumulate ? to[j] : T(0);
          to[j] = portable::wrapping_add(tile[i * width + j], before);
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();
#endif
