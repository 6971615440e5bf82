#include "kernels/optimized/conv/pixel_product.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include "base/rounding.h"
#include "kernels/optimized/amx/tiles.h"
#include "kernels/optimized/conv/clamped_convolution.h"
#include "kernels/optimized/conv/pixel_product-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"
#include "kernels/optimized/vec/transpose4-inl.h"
#include "runtime/host/packed_memory.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::conv::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

size_t PixelLanes() { return hn::Lanes(PixelTag()); }
size_t HalfPixelLanes() { return hn::Lanes(HalfPixelTag()); }

/// Most pixels of a tile of two vectors where tiles are as high as they can be without one that is much lower.
constexpr size_t kEvenTilePixels = hn::MaxLanes(PixelTag()) >= 16 ? 8 : 6;

/// All pixels of a block times the columns of two vectors, in as few tiles as possible, whose heights differ by one at
/// most.
template <class D0, class D1>
void multiply_evenly(D0 d0, D1 d1, PixelTile tile, const float* in, float* out, size_t out_step, size_t pixels) {
  for_even_tiles<kEvenTilePixels>(pixels, [&](auto height, size_t pixel) HWY_ATTR {
    tile.in = in + pixel * tile.windows.step;
    float* const to = out + pixel * out_step;
    multiply_tile<decltype(height)::value, true>(d0, d1, tile, [&](size_t i) { return to + i * out_step; });
  });
}

/// All pixels of a block times the columns from `first` on.
template <size_t kPixels, bool kTwo, class D0, class D1>
void multiply_columns(D0 d0, D1 d1, PixelTile tile, const float* in, float* out, size_t out_step, size_t pixels) {
  const auto multiply = [&](auto count, size_t pixel) HWY_ATTR {
    tile.in = in + pixel * tile.windows.step;
    float* const to = out + pixel * out_step;
    multiply_tile<decltype(count)::value, kTwo>(d0, d1, tile, [&](size_t i) { return to + i * out_step; });
  };
  // Tiles of a third for what is left; the last one overlaps rather than being smaller.
  constexpr size_t kFew = kPixels / 3;
  size_t pixel = 0;
  for (; pixel + kPixels <= pixels; pixel += kPixels) {
    multiply(std::integral_constant<size_t, kPixels>(), pixel);
  }
  if (pixel + 2 * kFew < pixels && pixels >= kPixels) {
    multiply(std::integral_constant<size_t, kPixels>(), pixels - kPixels);
    return;
  }
  for (; pixel + kFew <= pixels; pixel += kFew) {
    multiply(std::integral_constant<size_t, kFew>(), pixel);
  }
  if (pixel < pixels && pixels >= kFew) {
    multiply(std::integral_constant<size_t, kFew>(), pixels - kFew);
    return;
  }
  for (; pixel < pixels; ++pixel) {
    multiply(std::integral_constant<size_t, 1>(), pixel);
  }
}

/// Tiles [begin, end) of columns, whose filters the second cache holds.
void multiply_group(const PixelProduct& p, const PixelWindows& windows, const float* in, float* out, size_t pixels,
                    size_t begin, size_t end) {
  const PixelTag d;
  const HalfPixelTag half;
  const size_t wide = 2 * hn::Lanes(d);
  // Tiles that meet the same columns while the first cache holds both.
  constexpr size_t kBlock = 8 * kTilePixels;
  for (size_t start = 0; start < pixels;) {
    // What is left behind the last whole block goes with it.
    const size_t count = pixels - start < 2 * kBlock ? pixels - start : kBlock;
    const float* const from = in + start * windows.step;
    float* const to = out + start * windows.out_step;
    PixelTile tile{};
    tile.windows = windows;
    tile.min = p.min;
    tile.max = p.max;
    tile.taps = p.filter + begin * wide * p.depth();
    for (size_t first = begin * wide; first < HWY_MIN(end * wide, p.out_channels); first += wide) {
      tile.left = HWY_MIN(wide, p.out_channels - first);
      const size_t halves = (tile.left + hn::Lanes(half) - 1) / hn::Lanes(half);
      tile.tap_step = halves * hn::Lanes(half);
      tile.bias = p.bias + first;
      switch (halves) {
        case 1:
          multiply_columns<kTilePixels, false>(half, half, tile, from, to + first, windows.out_step, count);
          break;
        case 2: multiply_columns<kTilePixels, false>(d, d, tile, from, to + first, windows.out_step, count); break;
        case 3:
          p.has_high_tiles
              ? multiply_columns<kWideTilePixels, true>(d, half, tile, from, to + first, windows.out_step, count)
              : multiply_evenly(d, half, tile, from, to + first, windows.out_step, count);
          break;
        default:
          p.has_high_tiles
              ? multiply_columns<kWideTilePixels, true>(d, d, tile, from, to + first, windows.out_step, count)
              : multiply_evenly(d, d, tile, from, to + first, windows.out_step, count);
          break;
      }
      tile.taps += tile.tap_step * p.depth();
    }
    start += count;
  }
}

/// Tiles [begin, end) of columns. All pixels meet one group of them before the next, so that a filter beyond the caches
/// is read once, not once a block of pixels.
void MultiplyPixels(const PixelProduct& p, const PixelWindows& windows, const float* in, float* out, size_t pixels,
                    size_t begin, size_t end) {
  // Half of the second cache of most processors; the rest is for a block of pixels. Twice as much is as fast on two MB.
  constexpr size_t kBytesOfGroup = size_t{512} << 10;
  const size_t wide = 2 * hn::Lanes(PixelTag());
  const size_t tiles = HWY_MAX(kBytesOfGroup / (wide * p.depth() * sizeof(float)), 1);
  const size_t last = HWY_MIN(end, divide_up(p.out_channels, wide));
  for (size_t first = begin; first < last; first += tiles) {
    multiply_group(p, windows, in, out, pixels, first, HWY_MIN(first + tiles, last));
  }
}

/// packed[k * step + c] = weight[c * depth + k] for the columns of a tile.
void PackColumns(const float* weight, size_t depth, size_t columns, size_t step, float* packed) {
  const size_t fours = columns / 4 * 4, whole = depth / 4 * 4;
  const auto bytes = [](const float* at) { return reinterpret_cast<const char*>(at); };
  for (size_t k = 0; k < whole; k += 4) {
    for (size_t c = 0; c < fours; c += 4) {
      transpose4(bytes(weight + c * depth + k), reinterpret_cast<char*>(packed + k * step + c),
                 static_cast<int64_t>(depth * sizeof(float)), static_cast<int64_t>(step * sizeof(float)));
    }
  }
  for (size_t k = 0; k < depth; ++k) {
    for (size_t c = k < whole ? fours : 0; c < columns; ++c) {
      packed[k * step + c] = weight[c * depth + k];
    }
  }
}

/// packed[k * step + c] = matrix[k * row + c] for the columns of a tile, 0 up to `step`.
void PackRows(const float* matrix, size_t row, size_t depth, size_t columns, size_t step, float* packed) {
  const HalfPixelTag d;
  const size_t lanes = hn::Lanes(d);
  for (size_t k = 0; k < depth; ++k, matrix += row, packed += step) {
    for (size_t c = 0; c < step; c += lanes) {
      hn::StoreU(c + lanes <= columns ? hn::LoadU(d, matrix + c) : hn::LoadN(d, matrix + c, columns - c), d,
                 packed + c);
    }
  }
}

}  // namespace et::kernels::optimized::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::conv {

HWY_EXPORT(PixelLanes);
HWY_EXPORT(HalfPixelLanes);
HWY_EXPORT(MultiplyPixels);
HWY_EXPORT(PackColumns);
HWY_EXPORT(PackRows);

namespace {

/// Intel's processors with vectors of 64 bytes. In builds with sanitizers also those whose tiles are emulated.
bool has_high_tiles() {
#ifdef __x86_64__
  constexpr size_t kLanes = 16;
  return amx::has_integer_tiles() || (HWY_DYNAMIC_DISPATCH(PixelLanes)() == kLanes && __builtin_cpu_is("intel") != 0);
#else
  return false;
#endif
}

/// Columns that a product computes for `out_channels` of them.
size_t computed_columns(size_t out_channels) { return round_up(out_channels, HWY_DYNAMIC_DISPATCH(HalfPixelLanes)()); }

struct PackRequest {
  const float* weight;  // [out, taps, in], or [out, in, taps]
  bool taps_innermost;
  const PixelProduct* to;  // sizes
  size_t groups;
  const runtime::PrepareContext* context;
};

/// [columns, in, taps] → [columns, taps, in].
void put_channels_innermost(const float* weight, size_t columns, size_t taps, size_t in_channels, float* out) {
  for (size_t i = 0; i < columns * taps; ++i) {
    for (size_t c = 0; c < in_channels; ++c) {
      *out++ = weight[(i / taps * in_channels + c) * taps + i % taps];
    }
  }
}

/// Tiles [begin, end) of the columns of all groups.
void pack_tiles(const PackRequest& request, size_t begin, size_t end, float* reordered, float* packed) {
  const PixelProduct& p = *request.to;
  const size_t wide = columns_of_a_tile(), depth = p.depth(), tiles = divide_up(p.out_channels, wide);
  for (size_t tile = begin; tile < end; ++tile) {
    const size_t group = tile / tiles, first = tile % tiles * wide;
    const size_t columns = std::min(wide, p.out_channels - first);
    const size_t step = computed_columns(columns);
    const float* from = request.weight + (group * p.out_channels + first) * depth;
    float* const to = packed + group * p.group_floats + first * depth;
    if (request.taps_innermost) {
      put_channels_innermost(from, columns, p.kernel_h * p.kernel_w, p.in_channels, reordered);
      from = reordered;
    }
    if (columns < step) {
      std::fill_n(to, step * depth, 0.0f);
    }
    HWY_DYNAMIC_DISPATCH(PackColumns)(from, depth, columns, step, to);
  }
}

Result<void*> create_filter(void* argument) {
  const auto& request = *static_cast<const PackRequest*>(argument);
  const PixelProduct& p = *request.to;
  ET_TRY(void* const memory,
         request.context->shared()->memory().allocate(request.groups * p.group_floats * sizeof(float)));
  auto* const packed = static_cast<float*>(memory);
  const size_t wide = columns_of_a_tile(), tiles = request.groups * divide_up(p.out_channels, wide);
  const size_t tile_floats = wide * p.depth(), grain = threads::grain_for(tile_floats);
  threads::ThreadPool* const pool = request.context->pool();
  if (!request.taps_innermost) {
    threads::parallel_for(pool, tiles, grain,
                          [&](size_t begin, size_t end) { pack_tiles(request, begin, end, nullptr, packed); });
    return memory;
  }
  // Each thread puts the columns of a tile in order first.
  const size_t chunks = threads::chunks_for(pool, tiles, grain);
  const std::unique_ptr<float[]> reordered(new (std::nothrow) float[chunks * tile_floats]);
  ET_CHECK_OR_RETURN(reordered != nullptr, MemoryAllocationFailed,
                     "convolution: no memory for %zu bytes of a filter's columns",
                     chunks * tile_floats * sizeof(float));
  threads::parallel_chunks(pool, tiles, chunks, [&](size_t chunk, size_t begin, size_t end) {
    pack_tiles(request, begin, end, reordered.get() + chunk * tile_floats, packed);
  });
  return memory;
}

constexpr char kMaker = 0;  // its address names our entries in the shared cache

PixelWindows windows_of_pixels(const PixelProduct& product) {
  return {product.in_channels, product.in_channels, 1, 0, 0, 1, 0, product.out_channels};
}

}  // namespace

size_t columns_of_a_tile() { return 2 * HWY_DYNAMIC_DISPATCH(PixelLanes)(); }

Result<PixelProduct> pack_pixel_product(runtime::PrepareContext& context, const Tensor& weight, const EValue& bias,
                                        Range range, size_t groups) {
  PixelProduct product{};
  const auto columns = static_cast<size_t>(weight.size(0));
  product.out_channels = columns / groups;
  product.in_channels = static_cast<size_t>(weight.size(1));
  product.kernel_h = weight.dim() == 4 ? static_cast<size_t>(weight.size(2)) : 1;
  product.kernel_w = weight.dim() >= 3 ? static_cast<size_t>(weight.size(-1)) : 1;
  product.group_floats = computed_columns(product.out_channels) * product.depth();
  product.has_high_tiles = has_high_tiles();
  product.min = range.min;
  product.max = range.max;
  const bool taps_innermost =
      product.kernel_h * product.kernel_w > 1 && runtime::is_contiguous_dim_order(runtime::dim_order(weight));
  PackRequest request{weight.const_data_ptr<float>(), taps_innermost, &product, groups, &context};
  // A row of a window is as good as a pixel of as many channels: only the order of the numbers and the columns matter.
  const runtime::SharedCache::Key key{&kMaker, weight.const_data_ptr(), nullptr,
                                      uint64_t{product.in_channels} << 32 | uint64_t{groups} << 1 | taps_innermost,
                                      uint64_t{product.depth()} << 32 | product.out_channels};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &create_filter, &request, nullptr));
  product.filter = static_cast<const float*>(packed);
  // The last tile of a group reads numbers of the next one's, which it does not use.
  ET_TRY(product.bias, padded_bias(context, bias, columns, columns + columns_of_a_tile()));
  return product;
}

PixelProduct product_of_matrix(size_t depth, size_t columns) {
  PixelProduct product{};
  product.in_channels = depth;
  product.out_channels = columns;
  product.kernel_h = product.kernel_w = 1;
  product.group_floats = computed_columns(columns) * depth;
  product.has_high_tiles = has_high_tiles();
  product.min = -std::numeric_limits<float>::infinity();
  product.max = std::numeric_limits<float>::infinity();
  return product;
}

void pack_matrix(const PixelProduct& product, const float* matrix, size_t begin, size_t end, float* packed) {
  const size_t wide = columns_of_a_tile(), depth = product.in_channels;
  for (size_t first = begin * wide; first < std::min(end * wide, product.out_channels); first += wide) {
    const size_t columns = std::min(wide, product.out_channels - first);
    HWY_DYNAMIC_DISPATCH(PackRows)
    (matrix + first, product.out_channels, depth, columns, computed_columns(columns), packed + first * depth);
  }
}

void multiply_windows(const PixelProduct& product, const PixelWindows& windows, const float* in, float* out,
                      size_t pixels) {
  multiply_windows(product, windows, in, out, pixels, 0, product.out_channels);
}

void multiply_windows(const PixelProduct& product, const PixelWindows& windows, const float* in, float* out,
                      size_t pixels, size_t begin, size_t end) {
  HWY_DYNAMIC_DISPATCH(MultiplyPixels)(product, windows, in, out, pixels, begin, end);
}

void multiply_pixels(const PixelProduct& product, const float* in, float* out, size_t pixels) {
  multiply_windows(product, windows_of_pixels(product), in, out, pixels);
}

void multiply_pixels_on(threads::ThreadPool* pool, const PixelProduct& product, const float* in, float* out,
                        size_t pixels) {
  if (pixels == 0) {
    return;
  }
  // Multiplications of a chunk worth handing over to another thread: some 3 us.
  constexpr size_t kChunk = 150'000;
  const size_t depth = product.in_channels, columns = product.out_channels;
  const size_t threads = pool == nullptr ? 1 : pool->num_threads();
  const size_t strips = divide_up(pixels, kTilePixels), wide = columns_of_a_tile(), tiles = divide_up(columns, wide);
  constexpr size_t kLeastStrips = 4;  // of a chunk, so that what is left of the last tile weighs little
  constexpr size_t kLeastTiles = 8;   // of a thread
  // Threads share what is larger: numbers of the other are read by each of them.
  const bool has_many_columns = columns > pixels && tiles >= kLeastTiles * threads;
  if (threads == 1 || (strips >= 2 * kLeastStrips * threads && !has_many_columns)) {
    const size_t worth = kChunk / (kTilePixels * depth * columns) + 1;
    threads::parallel_for(pool, strips, std::max(worth, kLeastStrips), [&](size_t begin, size_t end) {
      const size_t first = begin * kTilePixels;
      multiply_pixels(product, in + first * depth, out + first * columns, std::min(end * kTilePixels, pixels) - first);
    });
    return;
  }
  const auto multiply = HWY_DYNAMIC_POINTER(MultiplyPixels);
  threads::parallel_for(pool, tiles, kChunk / (pixels * depth * wide) + 1, [&](size_t begin, size_t end) {
    multiply(product, windows_of_pixels(product), in, out, pixels, begin, end);
  });
}

}  // namespace et::kernels::optimized::conv
#endif  // HWY_ONCE
