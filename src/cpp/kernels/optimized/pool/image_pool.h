/// Windows of a pooling, and ImagePool: windows over images with channels innermost, each reduced to its largest
/// element or its mean, channel by channel.
///
/// For: pooling.cpp and quantized/pooling.cpp, which are the operators.
/// Not for: row-major images (plane_pool.cpp, which shares the windows), and indices of the largest elements.
///
///     ImagePool pool{};
///     ET_RETURN_IF_ERROR(plan_windows(context, rows, columns, &pool));   // and what else a call has
///     return pool_images(context, pool);
///
/// Windows are cut off at the edges of the image, so none is read beside it.
#pragma once

#include "kernels/optimized/vec/fitting.h"

namespace et::kernels::optimized::pool {

/// What becomes of a window, and of which elements.
enum class Pooling : uint8_t {
  kLargestFloat,  ///< not a number where one is none
  kLargestChar,
  kLargestByte,
  kMeanFloat,
  kMeanChar,  ///< of quantized integers: ImagePool::scale and what follows
  kMeanByte,
};

/// The elements of a window along one dimension that lie in the image: `count` of them, from `first` on.
struct Taps {
  int64_t first, count;
  int64_t counted;  ///< as how many it counts in a mean
};

/// Windows along one dimension: window i begins at i * stride - padding and has `kernel` elements that are `dilation`
/// apart.
struct PoolWindows {
  int64_t in, kernel, stride, padding, dilation;
  bool ceil_mode, counts_padding;

  /// How many there are; 0 for numbers that the plain kernel is to take, or to refuse.
  int64_t count() const;
  Taps operator[](int64_t i) const;
};

/// Those along the `i`-th of an image's last `spatial` dimensions, by the lists of an operator: of as many items, or
/// one for all; without stride it is the kernel's size.
PoolWindows windows_along(const Tensor& self, size_t i, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                          IntArrayRef dilation, bool ceil_mode, bool counts_padding, size_t spatial = 2);

/// Windows of adaptive pooling along one dimension: window i of `out` is [floor(i * in / out), ceil((i + 1) * in /
/// out)).
struct AdaptiveWindows {
  int64_t in, out;

  int64_t count() const { return out; }
  Taps operator[](int64_t i) const {
    const int64_t first = i * in / out, end = ((i + 1) * in + out - 1) / out;
    return {first, end - first, end - first};
  }
};

struct ImagePool {
  Pooling kind;
  const void* in;  // [batch, in_h, in_w, channels]
  void* out;       // [batch, out_h, out_w, channels]
  int64_t batch, channels, in_h, in_w, out_h, out_w;
  const Taps* rows;     // [out_h]
  const Taps* columns;  // [out_w]
  int64_t row_dilation, column_dilation;
  int64_t divisor;  // of a mean; 0: what its window counts as

  // Of quantized integers (docs/reference/numerics.md).
  float scale;  // of the input over that of the output
  int32_t in_zero_point, out_zero_point;
  float low, high;  // bounds of the output, less its zero point
};

/// Writes out the windows of both dimensions into temporary memory. Errors: MemoryAllocationFailed.
template <typename Windows>
Error plan_windows(KernelContext& context, const Windows& rows, const Windows& columns, ImagePool* pool) {
  pool->in_h = rows.in;
  pool->in_w = columns.in;
  pool->out_h = rows.count();
  pool->out_w = columns.count();
  const auto down = static_cast<size_t>(pool->out_h), across = static_cast<size_t>(pool->out_w);
  ET_TRY(void* const memory, context.allocate_temp((down + across) * sizeof(Taps)));
  auto* const taps = static_cast<Taps*>(memory);
  for (size_t i = 0; i < down; ++i) {
    taps[i] = rows[static_cast<int64_t>(i)];
  }
  for (size_t i = 0; i < across; ++i) {
    taps[down + i] = columns[static_cast<int64_t>(i)];
  }
  pool->rows = taps;
  pool->columns = taps + down;
  return Error::Ok;
}

/// Computes all windows on the threads of the call. Memory: temporary. Errors: MemoryAllocationFailed.
Error pool_images(KernelContext& context, const ImagePool& pool);

}  // namespace et::kernels::optimized::pool
