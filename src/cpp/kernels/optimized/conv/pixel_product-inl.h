// A tile of a product of pixels and a packed filter, compiled once a target. Included inside its pass only.

#if defined(ET_KERNELS_OPTIMIZED_PIXEL_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_PIXEL_PRODUCT_INL_H_
#undef ET_KERNELS_OPTIMIZED_PIXEL_PRODUCT_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_PIXEL_PRODUCT_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/row_pointers.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::conv::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using PixelTag = hn::ScalableTag<float>;
using HalfPixelTag = hn::Half<PixelTag>;

/// Pixels of a tile of two vectors of columns: its sums, with the operands, fill the registers, 32 of 64 bytes or 16
/// of 32.
inline constexpr size_t kWideTilePixels = hn::MaxLanes(PixelTag()) >= 16 ? kTilePixels : kTilePixels / 2;

/// Numbers of a matrix that are fetched ahead of those that pixels meet: those of 32 steps of two vectors. Fitted on
/// matrices beyond the caches, with vectors of 32 and 64 bytes.
inline constexpr size_t kAhead = 64 * hn::MaxLanes(PixelTag());
inline constexpr size_t kLine = 16;  // numbers of a cache line

/// What neighbouring pixels meet.
struct PixelTile {
  const float* in;  // the first number of the first pixel
  PixelWindows windows;
  const float* taps;
  size_t tap_step;  // floats from the columns of a channel to those of the next
  const float* bias;
  float min, max;
  size_t left;  // columns to write
};

/// kPixels pixels times the columns of a vector of D0, or of one of D0 and one of D1. to(i): where those of pixel i
/// begin.
template <size_t kPixels, bool kTwo, class D0, class D1, class To>
HWY_INLINE void multiply_tile(D0 d0, D1 d1, const PixelTile& tile, const To& to) {
  using V0 = hn::Vec<D0>;
  using V1 = hn::Vec<D1>;
  const size_t lanes0 = hn::Lanes(d0);
  const size_t lanes1 = hn::Lanes(d1);
  const V0 bias0 = hn::LoadU(d0, tile.bias);
  const V1 bias1 = kTwo ? hn::LoadU(d1, tile.bias + lanes0) : hn::Zero(d1);
  V0 sum0[kPixels];
  V1 sum1[kPixels];
#pragma GCC unroll 16
  for (size_t i = 0; i < kPixels; ++i) {
    sum0[i] = bias0;
    sum1[i] = bias1;
  }
  const PixelWindows& windows = tile.windows;
  const float* taps = tile.taps + windows.first_row * windows.runs * windows.depth * tile.tap_step;
  const float* row = tile.in + windows.first_row * windows.row_step;
  for (size_t r = windows.first_row; r < windows.end_row; ++r, row += windows.row_step) {
    const float* run = row;
    for (size_t c = 0; c < windows.runs; ++c, run += windows.run_step) {
      RowPointers<float, kPixels> x(run, windows.step);
      for (size_t k = 0; k < windows.depth; ++k, taps += tile.tap_step, x.advance(1)) {
        hwy::Prefetch(taps + kAhead);
        if (kTwo && hn::MaxLanes(d0) >= kLine) {
          hwy::Prefetch(taps + kAhead + kLine);
        }
        const V0 tap0 = hn::LoadU(d0, taps);
        const V1 tap1 = kTwo ? hn::LoadU(d1, taps + lanes0) : hn::Zero(d1);
#pragma GCC unroll 16
        for (size_t i = 0; i < kPixels; ++i) {
          const V0 number = hn::Set(d0, *x(i));
          sum0[i] = hn::MulAdd(number, tap0, sum0[i]);
          if (kTwo) {
            sum1[i] = hn::MulAdd(hn::ResizeBitCast(d1, number), tap1, sum1[i]);
          }
        }
      }
    }
  }
  const V0 low0 = hn::Set(d0, tile.min), high0 = hn::Set(d0, tile.max);
  const V1 low1 = hn::Set(d1, tile.min), high1 = hn::Set(d1, tile.max);
  const bool is_whole = tile.left >= lanes0 + (kTwo ? lanes1 : 0);
#pragma GCC unroll 16
  for (size_t i = 0; i < kPixels; ++i) {
    float* const out = to(i);
    const V0 out0 = limit(sum0[i], low0, high0);
    const V1 out1 = limit(sum1[i], low1, high1);
    if (is_whole) {
      hn::StoreU(out0, d0, out);
      if (kTwo) {
        hn::StoreU(out1, d1, out + lanes0);
      }
    } else {
      hn::StoreN(out0, d0, out, tile.left);
      if (kTwo && tile.left > lanes0) {
        hn::StoreN(out1, d1, out + lanes0, tile.left - lanes0);
      }
    }
  }
}

}  // namespace et::kernels::optimized::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
