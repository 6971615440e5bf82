/// Data of the Winograd kernel (winograd.cpp) that its parts share: the vector code of winograd-inl.h, compiled once a
/// target, and the planning around it.
///
/// For: those two files. Not for: other kernels; from outside this is a kernel of aten::convolution like any other.
///
/// The output is cut into tiles of `tile` x `tile` pixels. A tile is made from (tile + 2)² input pixels, its *patch*,
/// by
///
///     output = Aᵀ [ (G filter Gᵀ) ⊙ (Bᵀ patch B) ] A          summed over input channels
///
/// whose elementwise products are, for each of the (tile + 2)² *points*, a product of matrices [tiles, in channels] ·
/// [in channels, out channels]. That takes (tile + 2)² multiplications for tile² outputs instead of 9 · tile².
///
/// A filter with planes, [out, in, planes, 3, 3], adds up a product for each of its planes. Patches of a plane of the
/// volume are transformed once, and serve as many planes of the output as the filter has planes.
///
/// Source: A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", 2015; S. Winograd, "Arithmetic
/// complexity of computations", 1980. The interpolation points are our choice, see winograd-inl.h.
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::optimized::conv {

/// Floats between the points of a buffer beyond what they hold, so that the points do not fall on the same cache sets.
inline constexpr size_t kPointSlack = 16;

/// One convolution on images, or volumes, with channels innermost.
struct Winograd {
  size_t tile;  // 2 or 4
  size_t in_channels, out_channels;
  size_t planes;        // of the filter; 1 for images
  size_t plane_step;    // dilation of the planes
  const float* packed;  // see PackFilter
  const float* bias;    // [out_channels rounded up to strips]
  float min, max;
  int64_t pad_d, pad_h, pad_w;

  // Of a call.
  const float* in;  // [batch, in_d, in_h, in_w, in_channels]
  float* out;       // [batch, out_d, out_h, out_w, out_channels]
  int64_t in_d, in_h, in_w, out_d, out_h, out_w;
  size_t tiles_down, tiles_across;  // of an image, or a plane

  size_t points() const { return (tile + 2) * (tile + 2); }
  /// Floats of a point of a strip of `columns` output channels in `packed`.
  size_t packed_point(size_t columns) const { return planes * in_channels * columns + kPointSlack; }
  /// Planes that the filter reaches beyond the first.
  size_t reach() const { return (planes - 1) * plane_step; }
};

/// A block of tiles, the same of each of its planes, and where its intermediate results stand.
struct WinogradBlock {
  size_t first, count;  // tiles: of a plane, or over all images
  size_t planes;        // of the output; 1 for images
  int64_t in_plane;     // of its volume, that the patches begin with; before 0 in the border
  size_t volume;        // planes of the input before its volume
  size_t out_plane;     // planes of the output before its first one
  float* patches;       // [points][planes + reach][count][patch_stride] + slack: transformed patches
  size_t patch_stride;  // in_channels rounded up to a vector
  size_t patch_point;   // floats from point to point
  float* products;      // [points][planes][count][columns of a strip] + slack
  size_t product_point;
  const float* zeros;  // [patch_stride]: what lies outside of an image
};

/// Sizes of a convolution; `images` are the images, or all planes, of the output.
struct ConvolutionSizes {
  size_t in_channels, out_channels, planes, images, out_h, out_w;
};

/// The kernels with tiles of 2 or 4 pixels a side for every convolution, where those of the registry choose by a cost
/// that differs from machine to machine. For tests of the arithmetic.
Span<const Kernel> winograd_kernels_with_tiles_of(size_t side);

/// A constant filter [out, in, planes, 3, 3] in any order.
struct WinogradFilter {
  const float* data;
  size_t planes;
  size_t out_stride, in_stride, plane_stride, tap_stride;  // elements
};

}  // namespace et::kernels::optimized::conv
