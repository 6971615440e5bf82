/// PixelProduct: the product of pixels, channels innermost, and a constant filter: a convolution of 1x1, a linear
/// layer of many rows; and of windows, which are some numbers of some rows of an image.
///
/// For: pixel_convolution.cpp and pixel_linear.cpp, which are these, separable_convolution.cpp, which runs it on rows
/// in the cache, window_convolution.cpp, which multiplies windows where they stand, and pixel_matmul.cpp. Not for:
/// other types and orders of matrices (gemm.h).
///
///     ET_TRY(const PixelProduct product, pack_pixel_product(context, weight, bias, range));   // at load
///     multiply_pixels(product, in, out, pixels);
///
/// Columns are computed in tiles of two vectors, and what is left in one and a half, one, or half of one. A sum begins
/// with the bias and takes its channels in order, one fused multiply-add each, as the library's product of floats does:
/// the same bits.
#pragma once

#include "kernels/optimized/vec/numbers.h"
#include "threads/thread_pool.h"

namespace et::kernels::optimized::conv {

/// Pixels of a tile of one vector of columns.
inline constexpr size_t kTilePixels = 12;

/// Where neighbouring output pixels find what they look at, and leave what they make. For a filter of 1x1: the channels
/// of a pixel, one run, one row.
struct PixelWindows {
  size_t step;   // floats from a pixel's window to the next pixel's
  size_t depth;  // floats of a run, which lie side by side
  size_t runs;   // of a row of a window: one, or one for each tap where channels are shared by groups or taps are apart
  size_t run_step;            // floats from a run to the next
  size_t first_row, end_row;  // of a window, those that are met: the others see zeros
  size_t row_step;            // floats from a row of a window to the next
  size_t out_step;            // floats from an output pixel to the next
};

struct PixelProduct {
  size_t in_channels, out_channels;  // of a group
  size_t kernel_h, kernel_w;         // of the filter, 1 of a matrix
  const float* filter;  // [tiles of columns][kernel_h][kernel_w][in_channels][columns of the tile]; columns beyond the
                        // last are 0
  const float* bias;    // [out_channels, up to whole tiles]
  float min, max;
  /// Tiles of two vectors have twelve pixels, as processors that wait for columns want them, not eight.
  bool has_high_tiles;

  size_t group_floats;  // of a filter to that of the next group

  size_t depth() const { return kernel_h * kernel_w * in_channels; }
  PixelProduct group(size_t g) const {
    PixelProduct of = *this;
    of.filter += g * group_floats;
    of.bias += g * out_channels;
    return of;
  }
};

/// Packs a constant weight once a Program: [groups * out, in, h, w], or without h, row-major or with channels
/// innermost, or [out, in]. The bias has a number for each column or is None. Gives the product of the first group.
/// Memory: the Program's and the Method's. Errors: MemoryAllocationFailed.
Result<PixelProduct> pack_pixel_product(runtime::PrepareContext& context, const Tensor& weight, const EValue& bias,
                                        Range range, size_t groups = 1);

/// A product with a matrix [depth, columns] that is packed at each call: its sizes, without bounds. The caller sets
/// `filter`, group_floats of them, and `bias`, zeros for whole tiles of columns.
PixelProduct product_of_matrix(size_t depth, size_t columns);
/// Packs tiles [begin, end) of the columns of such a matrix, row-major, into the numbers of `filter`.
void pack_matrix(const PixelProduct& product, const float* matrix, size_t begin, size_t end, float* packed);

/// The windows of `pixels` neighbours, the first at `in` → the out_channels of each, from `out` on, which do not
/// overlap them. Threads: any number at a time.
void multiply_windows(const PixelProduct& product, const PixelWindows& windows, const float* in, float* out,
                      size_t pixels);

/// The same for tiles [begin, end) of columns.
void multiply_windows(const PixelProduct& product, const PixelWindows& windows, const float* in, float* out,
                      size_t pixels, size_t begin, size_t end);

/// in [pixels, in_channels] → out [pixels, out_channels], for a filter of 1x1.
void multiply_pixels(const PixelProduct& product, const float* in, float* out, size_t pixels);

/// The same on the threads of a pool, which may be nullptr.
void multiply_pixels_on(threads::ThreadPool* pool, const PixelProduct& product, const float* in, float* out,
                        size_t pixels);

/// Columns of a whole tile.
size_t columns_of_a_tile();

}  // namespace et::kernels::optimized::conv
