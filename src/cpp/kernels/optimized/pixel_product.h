/// PixelProduct: the product of pixels, channels innermost, and a constant filter: a convolution of 1x1.
///
/// For: pixel_convolution.cpp, which is that convolution, and separable_convolution.cpp, which runs it on rows in the cache.
/// Not for: products whose weight changes (gemm.h).
///
///     ET_TRY(const PixelProduct product, pack_pixel_product(context, weight, bias, range));   // at load
///     multiply_pixels(product, in, out, pixels);
///
/// Columns are computed in tiles of two vectors, and what is left in one and a half, one, or half of one. A sum begins with the
/// bias and takes its channels in order, one fused multiply-add each, as the library's product of floats does: the same bits.
#pragma once

#include "kernels/optimized/pointwise.h"

namespace et::kernels::optimized {

/// Pixels of a tile of one vector of columns.
inline constexpr size_t kTilePixels = 12;

struct PixelProduct {
  size_t in_channels, out_channels;
  const float* filter;  // [tiles of columns][in_channels][columns of the tile]; columns beyond the last are 0
  const float* bias;    // [out_channels, up to whole tiles]
  float min, max;
};

/// Packs a constant weight [out, in, 1, 1] once a Program; the bias has a number for each column or is None. Memory: the
/// Program's and the Method's. Errors: MemoryAllocationFailed.
Result<PixelProduct> pack_pixel_product(runtime::PrepareContext& context, const Tensor& weight, const EValue& bias,
                                        Range range);

/// in [pixels, in_channels] → out [pixels, out_channels], which does not overlap it. Threads: any number at a time.
void multiply_pixels(const PixelProduct& product, const float* in, float* out, size_t pixels);

/// Pixels that a product computes for `pixels`: what is left of a tile repeats some.
size_t computed_pixels(size_t pixels);
/// Columns that it computes for `out_channels` of them: here, and in a library whose tiles are all of two vectors.
size_t computed_columns(size_t out_channels);
size_t columns_of_whole_tiles(size_t out_channels);

}  // namespace et::kernels::optimized
