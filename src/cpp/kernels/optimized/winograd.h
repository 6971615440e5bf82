/// Data of the Winograd kernel (winograd.cpp) that its parts share: the vector code of winograd-inl.h, compiled once a
/// target, and the planning around it.
///
/// For: those two files. Not for: other kernels; from outside this is a kernel of aten::convolution like any other.
///
/// The output is cut into tiles of `tile` x `tile` pixels. A tile is made from (tile + 2)² input pixels, its *patch*, by
///
///     output = Aᵀ [ (G filter Gᵀ) ⊙ (Bᵀ patch B) ] A          summed over input channels
///
/// whose elementwise products are, for each of the (tile + 2)² *points*, a product of matrices [tiles, in channels] ·
/// [in channels, out channels]. That takes (tile + 2)² multiplications for tile² outputs instead of 9 · tile².
///
/// Source: A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", 2015; S. Winograd, "Arithmetic
/// complexity of computations", 1980. The interpolation points are our choice, see winograd-inl.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace et::kernels::optimized {

/// Floats between the points of a buffer beyond what they hold, so that the points do not fall on the same cache sets.
inline constexpr size_t kPointSlack = 16;

/// One convolution on images with channels innermost.
struct Winograd {
  size_t tile;  // 2 or 4
  size_t in_channels, out_channels;
  const float* packed;  // see PackFilter
  const float* bias;    // [out_channels rounded up to strips]
  float min, max;
  int64_t pad_h, pad_w;

  // Of a call.
  const float* in;  // [batch, in_h, in_w, in_channels]
  float* out;       // [batch, out_h, out_w, out_channels]
  int64_t in_h, in_w, out_h, out_w;
  size_t tiles_down, tiles_across;  // of an image

  size_t points() const { return (tile + 2) * (tile + 2); }
  /// Floats of a point of a strip of `columns` output channels in `packed`.
  size_t packed_point(size_t columns) const { return in_channels * columns + kPointSlack; }
};

/// A block of tiles and where its intermediate results stand.
struct WinogradBlock {
  size_t first, count;  // tiles, over all images
  float* patches;       // [points][count][patch_stride] + slack: transformed patches
  size_t patch_stride;  // in_channels rounded up to a vector
  size_t patch_point;   // floats from point to point
  float* products;      // [points][count][columns of a strip] + slack
  size_t product_point;
  const float* zeros;  // [patch_stride]: what lies outside of an image
};

/// Pixels of a tile's side, 2 or 4, for a convolution of these sizes; 0 = direct convolution is about as fast or faster.
using TileRule = size_t (*)(size_t in_channels, size_t out_channels, size_t batch, size_t out_h, size_t out_w);

/// Puts a rule in the place of the one by cost, which differs from machine to machine, and returns the former one. For tests
/// of the arithmetic only; no method may be loading meanwhile.
TileRule set_tile_rule(TileRule rule);

/// A constant filter [out, in, 3, 3] in any order.
struct WinogradFilter {
  const float* data;
  size_t out_stride, in_stride, tap_stride;  // elements
};

}  // namespace et::kernels::optimized
