#include "kernels/optimized/pixel_product.h"

#include "kernels/optimized/targets.h"

#include <algorithm>
#include <cstdlib>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/pixel_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/clamped_convolution.h"
#include "kernels/optimized/pixel_product-inl.h"
#include "kernels/optimized/tiles.h"
#include "kernels/optimized/transpose4-inl.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

size_t PixelLanes() { return hn::Lanes(PixelTag()); }
size_t HalfPixelLanes() { return hn::Lanes(HalfPixelTag()); }

/// All pixels of a block times the columns from `first` on.
template <size_t kPixels, bool kTwo, class D0, class D1>
void multiply_columns(D0 d0, D1 d1, PixelTile tile, const float* in, float* out, size_t out_step, size_t pixels) {
  const auto multiply = [&](auto count, size_t pixel) HWY_ATTR {
    tile.in = in + pixel * tile.depth;
    float* const to = out + pixel * out_step;
    multiply_tile<decltype(count)::value, kTwo>(d0, d1, tile, [&](size_t i) { return to + i * out_step; });
  };
  size_t pixel = 0;
  for (; pixel + kPixels <= pixels; pixel += kPixels) {
    multiply(std::integral_constant<size_t, kPixels>(), pixel);
  }
  if (pixel < pixels && pixels >= kPixels) {
    multiply(std::integral_constant<size_t, kPixels>(), pixels - kPixels);  // overlaps rather than being smaller
    return;
  }
  for (; pixel < pixels; ++pixel) {
    multiply(std::integral_constant<size_t, 1>(), pixel);
  }
}

/// Tiles [begin, end) of columns.
void MultiplyPixels(const PixelProduct& p, const float* in, float* out, size_t pixels, size_t begin, size_t end) {
  const PixelTag d;
  const HalfPixelTag half;
  const size_t wide = 2 * hn::Lanes(d);
  // Tiles that meet the same columns while the first cache holds both.
  constexpr size_t kBlock = 8 * kTilePixels;
  for (size_t start = 0; start < pixels;) {
    // What is left behind the last whole block goes with it.
    const size_t count = pixels - start < 2 * kBlock ? pixels - start : kBlock;
    const float* const from = in + start * p.in_channels;
    float* const to = out + start * p.out_channels;
    PixelTile tile{};
    tile.depth = p.in_channels;
    tile.min = p.min;
    tile.max = p.max;
    tile.taps = p.filter + begin * wide * p.in_channels;
    for (size_t first = begin * wide; first < HWY_MIN(end * wide, p.out_channels); first += wide) {
      tile.left = HWY_MIN(wide, p.out_channels - first);
      const size_t halves = (tile.left + hn::Lanes(half) - 1) / hn::Lanes(half);
      tile.tap_step = halves * hn::Lanes(half);
      tile.bias = p.bias + first;
      switch (halves) {
        case 1: multiply_columns<kTilePixels, false>(half, half, tile, from, to + first, p.out_channels, count); break;
        case 2: multiply_columns<kTilePixels, false>(d, d, tile, from, to + first, p.out_channels, count); break;
        case 3: multiply_columns<kWideTilePixels, true>(d, half, tile, from, to + first, p.out_channels, count); break;
        default: multiply_columns<kWideTilePixels, true>(d, d, tile, from, to + first, p.out_channels, count); break;
      }
      tile.taps += tile.tap_step * p.in_channels;
    }
    start += count;
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

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(PixelLanes);
HWY_EXPORT(HalfPixelLanes);
HWY_EXPORT(MultiplyPixels);
HWY_EXPORT(PackColumns);

namespace {

size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

/// Columns that a product computes for `out_channels` of them.
size_t computed_columns(size_t out_channels) { return round_up(out_channels, HWY_DYNAMIC_DISPATCH(HalfPixelLanes)()); }

struct PackRequest {
  const float* weight;  // [out, in]
  size_t in_channels, out_channels;
};

Result<void*> create_filter(void* argument) {
  const auto& request = *static_cast<const PackRequest*>(argument);
  const size_t wide = columns_of_a_tile();
  const size_t nbytes = computed_columns(request.out_channels) * request.in_channels * sizeof(float);
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, nbytes) != 0) {
    ET_LOG_ERROR("convolution: no memory for a filter of %zu bytes", nbytes);
    return Error::MemoryAllocationFailed;
  }
  auto* packed = static_cast<float*>(memory);
  for (size_t first = 0; first < request.out_channels; first += wide) {
    const size_t columns = std::min(wide, request.out_channels - first);
    const size_t step = computed_columns(columns);
    if (columns < step) {
      std::fill_n(packed, step * request.in_channels, 0.0f);
    }
    HWY_DYNAMIC_DISPATCH(PackColumns)
    (request.weight + first * request.in_channels, request.in_channels, columns, step, packed);
    packed += step * request.in_channels;
  }
  return memory;
}

constexpr char kMaker = 0;  // its address names our entries in the shared cache

}  // namespace

size_t columns_of_a_tile() { return 2 * HWY_DYNAMIC_DISPATCH(PixelLanes)(); }

bool is_faster_than_library(size_t pixels, size_t out_channels) {
  constexpr size_t kLeast = 2 * kTilePixels;
  const size_t wide = columns_of_a_tile();
  const size_t library_rows = wide == 32 ? 7 : 5;  // it computes whole tiles as well
  // In tenths of what the library computes. Measured on one processor of each kind (docs/kernels.md): those with tiles of integers have
  // two units for 64 bytes, which the library's seven rows, each read from the second cache again, cannot feed.
  const size_t permitted = has_integer_tiles() ? 12 : 9;
  return pixels >= kLeast && 10 * round_up(pixels, kTilePixels) * computed_columns(out_channels) <=
                                 permitted * round_up(pixels, library_rows) * round_up(out_channels, wide);
}

Result<PixelProduct> pack_pixel_product(runtime::PrepareContext& context, const Tensor& weight, const EValue& bias,
                                        Range range) {
  PixelProduct product{};
  product.out_channels = static_cast<size_t>(weight.size(0));
  product.in_channels = static_cast<size_t>(weight.size(1));
  product.min = range.min;
  product.max = range.max;
  PackRequest request{weight.const_data_ptr<float>(), product.in_channels, product.out_channels};
  const runtime::SharedCache::Key key{&kMaker, weight.const_data_ptr(), nullptr, product.in_channels,
                                      product.out_channels};
  ET_TRY(void* const packed, context.shared()->get_or_create(key, &create_filter, &request, &std::free));
  product.filter = static_cast<const float*>(packed);
  ET_TRY(product.bias,
         padded_bias(context, bias, product.out_channels, round_up(product.out_channels, columns_of_a_tile())));
  return product;
}

void multiply_pixels(const PixelProduct& product, const float* in, float* out, size_t pixels) {
  HWY_DYNAMIC_DISPATCH(MultiplyPixels)(product, in, out, pixels, 0, product.out_channels);
}

void multiply_pixels_on(threads::ThreadPool* pool, const PixelProduct& product, const float* in, float* out,
                        size_t pixels) {
  // Multiplications of a chunk worth handing over to another thread: some 3 us.
  constexpr size_t kChunk = 150'000;
  const size_t depth = product.in_channels, columns = product.out_channels;
  const size_t threads = pool == nullptr ? 1 : pool->num_threads();
  const size_t strips = (pixels + kTilePixels - 1) / kTilePixels;
  constexpr size_t kLeastStrips = 4;  // of a chunk, so that what is left of the last tile weighs little
  if (strips >= 2 * kLeastStrips * threads || threads == 1) {
    const size_t worth = kChunk / (kTilePixels * depth * columns) + 1;
    threads::parallel_for(pool, strips, std::max(worth, kLeastStrips), [&](size_t begin, size_t end) {
      const size_t first = begin * kTilePixels;
      multiply_pixels(product, in + first * depth, out + first * columns, std::min(end * kTilePixels, pixels) - first);
    });
    return;
  }
  const size_t wide = columns_of_a_tile();
  const auto multiply = HWY_DYNAMIC_POINTER(MultiplyPixels);
  threads::parallel_for(pool, (columns + wide - 1) / wide, kChunk / (pixels * depth * wide) + 1,
                        [&](size_t begin, size_t end) { multiply(product, in, out, pixels, begin, end); });
}

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
