/// PixelProduct: the product of pixels, channels innermost, and a constant filter: a convolution of 1x1, a linear
/// layer of many rows.
///
/// For: pixel_convolution.cpp and pixel_linear.cpp, which are these, and separable_convolution.cpp, which runs it on rows in the cache.
/// Not for: products whose weight changes (gemm.h).
///
///     ET_TRY(const PixelProduct product, pack_pixel_product(context, weight, bias, range));   // at load
///     multiply_pixels(product, in, out, pixels);
///
/// Columns are computed in tiles of two vectors, and what is left in one and a half, one, or half of one. A sum begins with the
/// bias and takes its channels in order, one fused multiply-add each, as the library's product of floats does: the same bits.
#pragma once

#include "kernels/optimized/pointwise.h"
#include "threads/thread_pool.h"

namespace et::kernels::optimized {

/// Pixels of a tile of one vector of columns.
inline constexpr size_t kTilePixels = 12;

struct PixelProduct {
  size_t in_channels, out_channels;
  const float* filter;  // [tiles of columns][in_channels][columns of the tile]; columns beyond the last are 0
  const float* bias;    // [out_channels, up to whole tiles]
  float min, max;
};

/// Packs a constant weight [out, in, 1, 1] or [out, in] once a Program; the bias has a number for each column or is None. Memory: the
/// Program's and the Method's. Errors: MemoryAllocationFailed.
Result<PixelProduct> pack_pixel_product(runtime::PrepareContext& context, const Tensor& weight, const EValue& bias,
                                        Range range);

/// in [pixels, in_channels] → out [pixels, out_channels], which does not overlap it. Threads: any number at a time.
void multiply_pixels(const PixelProduct& product, const float* in, float* out, size_t pixels);

/// The same on the threads of a pool, which may be nullptr.
void multiply_pixels_on(threads::ThreadPool* pool, const PixelProduct& product, const float* in, float* out,
                        size_t pixels);

/// True where a product takes less time than with a library whose tiles are of seven rows and two vectors: where tiles of half a
/// vector leave out more columns than tiles of twelve pixels repeat pixels, where it fills its last rows up (24 of 28), and everywhere
/// on processors that wait for loads.
bool is_faster_than_library(size_t pixels, size_t out_channels);
/// Columns of a whole tile.
size_t columns_of_a_tile();

}  // namespace et::kernels::optimized
