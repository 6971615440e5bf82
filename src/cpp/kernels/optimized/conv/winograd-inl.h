// The vector code of the Winograd kernel: transforms of filters, patches and products, and the product of matrices
// between them. Compiled once a target. Included inside the target's pass only.

#if defined(ET_KERNELS_OPTIMIZED_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_WINOGRAD_INL_H_
#undef ET_KERNELS_OPTIMIZED_WINOGRAD_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_WINOGRAD_INL_H_
#endif

#include <hwy/highway.h>

#include "base/rounding.h"
#include "kernels/optimized/conv/winograd.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::conv::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

/// A tile of kRows x 2 vectors of sums, with the operands, fills the registers: 32 of 64 bytes or 16 of 32 bytes.
constexpr size_t kRows = hn::MaxLanes(Tag()) >= 16 ? 12 : 6;

/// Transformed filters of a strip up to this size stay near, those of all strips together in the second cache.
constexpr size_t kNearBytes = size_t{256} << 10;

/// Output channels that are treated together.
size_t WinogradStrip() { return 2 * hn::Lanes(Tag()); }
/// Channels of a strip in memory: one vector or two.
size_t strip_width(size_t columns) { return columns <= hn::Lanes(Tag()) ? hn::Lanes(Tag()) : WinogradStrip(); }

// ------------------------------------------------------------------------------------------------------ transforms in
// one dim

/// F(2, 3) from the points 0, 1, -1, ∞.
struct TileOf2 {
  static constexpr size_t kTile = 2;
  static HWY_INLINE void filter(const V* g, V* y) {
    const Tag d;
    const V half = hn::Set(d, 0.5f);
    const V even = hn::Mul(half, hn::Add(g[0], g[2]));
    const V odd = hn::Mul(half, g[1]);
    y[0] = g[0];
    y[1] = hn::Add(even, odd);
    y[2] = hn::Sub(even, odd);
    y[3] = g[2];
  }
  static HWY_INLINE void patch(const V* x, V* y) {
    y[0] = hn::Sub(x[0], x[2]);
    y[1] = hn::Add(x[1], x[2]);
    y[2] = hn::Sub(x[2], x[1]);
    y[3] = hn::Sub(x[3], x[1]);
  }
  static HWY_INLINE void product(const V* m, V* y) {
    y[0] = hn::Add(hn::Add(m[0], m[1]), m[2]);
    y[1] = hn::Add(hn::Sub(m[1], m[2]), m[3]);
  }
};

/// F(4, 3) from the points 0, ±a, ±b, ∞ with a = √½ and b = √2. These lose less than the usual 1 and 2, because powers
/// of a and b stay near 1.
struct TileOf4 {
  static constexpr size_t kTile = 4;
  static constexpr float kA = 0.70710678f;
  static constexpr float kB = 1.41421356f;
  static constexpr float kA2 = 0.5f;
  static constexpr float kB2 = 2.0f;

  static HWY_INLINE void filter(const V* g, V* y) {
    const Tag d;
    const auto pair = [&](float scale, float point, float square, V* plus, V* minus) HWY_ATTR {
      const V even = hn::Mul(hn::Set(d, scale), hn::MulAdd(hn::Set(d, square), g[2], g[0]));
      const V odd = hn::Mul(hn::Set(d, scale * point), g[1]);
      *plus = hn::Add(even, odd);
      *minus = hn::Sub(even, odd);
    };
    y[0] = hn::Mul(hn::Set(d, 1.0f / (kA2 * kB2)), g[0]);
    pair(1.0f / (2 * kA2 * (kA2 - kB2)), kA, kA2, &y[1], &y[2]);
    pair(1.0f / (2 * kB2 * (kB2 - kA2)), kB, kB2, &y[3], &y[4]);
    y[5] = g[2];
  }
  static HWY_INLINE void patch(const V* x, V* y) {
    const Tag d;
    const V a = hn::Set(d, kA), b = hn::Set(d, kB), a2 = hn::Set(d, kA2), b2 = hn::Set(d, kB2);
    const V sum = hn::Set(d, kA2 + kB2);
    static_assert(kA2 * kB2 == 1.0f, "the factor of x[0] and x[1]");
    const V even_a = hn::NegMulAdd(b2, x[2], x[4]);
    const V odd_a = hn::NegMulAdd(b2, x[1], x[3]);
    const V even_b = hn::NegMulAdd(a2, x[2], x[4]);
    const V odd_b = hn::NegMulAdd(a2, x[1], x[3]);
    y[0] = hn::Add(hn::NegMulAdd(sum, x[2], x[4]), x[0]);
    y[1] = hn::MulAdd(a, odd_a, even_a);
    y[2] = hn::NegMulAdd(a, odd_a, even_a);
    y[3] = hn::MulAdd(b, odd_b, even_b);
    y[4] = hn::NegMulAdd(b, odd_b, even_b);
    y[5] = hn::Add(hn::NegMulAdd(sum, x[3], x[5]), x[1]);
  }
  static HWY_INLINE void product(const V* m, V* y) {
    const Tag d;
    const V even_a = hn::Add(m[1], m[2]);
    const V odd_a = hn::Sub(m[1], m[2]);
    const V even_b = hn::Add(m[3], m[4]);
    const V odd_b = hn::Sub(m[3], m[4]);
    y[0] = hn::Add(hn::Add(m[0], even_a), even_b);
    y[1] = hn::MulAdd(hn::Set(d, kB), odd_b, hn::Mul(hn::Set(d, kA), odd_a));
    y[2] = hn::MulAdd(hn::Set(d, kB2), even_b, hn::Mul(hn::Set(d, kA2), even_a));
    y[3] = hn::MulAdd(hn::Set(d, kB * kB2), odd_b, hn::MulAdd(hn::Set(d, kA * kA2), odd_a, m[5]));
  }
};

// -----------------------------------------------------------------------------------------------------------------
// filters

/// Writes one strip of a transformed filter, [points][planes][in_channels][width] with slack between points; channels
/// beyond `columns` are 0.
template <class Tile>
void pack_strip(const WinogradFilter& filter, size_t in_channels, size_t first, size_t columns, float* packed) {
  constexpr size_t kSide = Tile::kTile + 2;
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const size_t width = strip_width(columns);
  const size_t rows = filter.planes * in_channels;
  const size_t point = rows * width + kPointSlack;
  HWY_ALIGN float taps[9][2 * hn::MaxLanes(Tag())] = {};
  for (size_t k = 0; k < rows; ++k) {
    const float* const row = filter.data + k / in_channels * filter.plane_stride + k % in_channels * filter.in_stride;
    for (size_t c = 0; c < columns; ++c) {
      const float* const from = row + (first + c) * filter.out_stride;
      for (size_t t = 0; t < 9; ++t) {
        taps[t][c] = from[t * filter.tap_stride];
      }
    }
    for (size_t c = 0; c < width; c += lanes) {
      V half[kSide][3];
      for (size_t j = 0; j < 3; ++j) {
        const V g[3] = {hn::Load(d, &taps[j][c]), hn::Load(d, &taps[3 + j][c]), hn::Load(d, &taps[6 + j][c])};
        V y[kSide];
        Tile::filter(g, y);
        for (size_t i = 0; i < kSide; ++i) {
          half[i][j] = y[i];
        }
      }
      float* const to = packed + k * width + c;
      for (size_t i = 0; i < kSide; ++i) {
        V y[kSide];
        Tile::filter(half[i], y);
        for (size_t j = 0; j < kSide; ++j) {
          hn::StoreU(y[j], d, to + (i * kSide + j) * point);
        }
      }
    }
  }
}

/// Output channels [first, first + columns), at most a strip.
void PackStrip(size_t tile, const WinogradFilter& filter, size_t in_channels, size_t first, size_t columns,
               float* packed) {
  if (tile == 4) {
    pack_strip<TileOf4>(filter, in_channels, first, columns, packed);
  } else {
    pack_strip<TileOf2>(filter, in_channels, first, columns, packed);
  }
}

// -----------------------------------------------------------------------------------------------------------------
// patches

/// Where a tile stands.
struct TilePlace {
  size_t image;
  int64_t y, x;  // of its first output pixel
};

HWY_INLINE TilePlace place_of(const Winograd& w, size_t tile) {
  const size_t per_image = w.tiles_down * w.tiles_across;
  const size_t within = tile % per_image;
  return {tile / per_image, static_cast<int64_t>(within / w.tiles_across * w.tile),
          static_cast<int64_t>(within % w.tiles_across * w.tile)};
}

/// One vector of channels of one patch. `pixel(i, j)` loads it from row i and column j.
template <class Tile, class Pixel>
HWY_INLINE void transform_patch(const Pixel& pixel, float* to, size_t point) {
  constexpr size_t kSide = Tile::kTile + 2;
  const Tag d;
  V half[kSide][kSide];
#pragma GCC unroll 6
  for (size_t j = 0; j < kSide; ++j) {
    V x[kSide], y[kSide];
#pragma GCC unroll 6
    for (size_t i = 0; i < kSide; ++i) {
      x[i] = pixel(i, j);
    }
    Tile::patch(x, y);
#pragma GCC unroll 6
    for (size_t i = 0; i < kSide; ++i) {
      half[i][j] = y[i];
    }
  }
#pragma GCC unroll 6
  for (size_t i = 0; i < kSide; ++i) {
    V y[kSide];
    Tile::patch(half[i], y);
#pragma GCC unroll 6
    for (size_t j = 0; j < kSide; ++j) {
      hn::StoreU(y[j], d, to + (i * kSide + j) * point);
    }
  }
}

template <class Tile>
void transform_patches(const Winograd& w, const WinogradBlock& block, size_t begin, size_t end) {
  constexpr size_t kSide = Tile::kTile + 2;
  const Tag d;
  const size_t channels = w.in_channels;
  const size_t row_step = static_cast<size_t>(w.in_w) * channels;
  for (size_t t = begin; t < end; ++t) {
    const int64_t plane = block.in_plane + static_cast<int64_t>(t / block.count);
    if (plane < 0 || plane >= w.in_d) {
      continue;  // nothing is multiplied by it
    }
    const TilePlace place = place_of(w, block.first + t % block.count);
    const int64_t y0 = place.y - w.pad_h;
    const int64_t x0 = place.x - w.pad_w;
    const float* const image =
        w.in + (block.volume + static_cast<size_t>(plane) + place.image) * static_cast<size_t>(w.in_h) * row_step;
    float* const to = block.patches + t * block.patch_stride;
    const auto side = static_cast<int64_t>(kSide);
    if (y0 >= 0 && x0 >= 0 && y0 + side <= w.in_h && x0 + side <= w.in_w) {
      const float* const base = image + static_cast<size_t>(y0) * row_step + static_cast<size_t>(x0) * channels;
      over_vectors(channels, [&](auto whole, size_t c, size_t left) HWY_ATTR {
        transform_patch<Tile>([&](size_t i, size_t j)
                                  HWY_ATTR { return load(d, whole, base + i * row_step + j * channels + c, left); },
                              to + c, block.patch_point);
      });
      continue;
    }
    const float* pixels[kSide * kSide];
    for (size_t i = 0; i < kSide; ++i) {
      const int64_t y = y0 + static_cast<int64_t>(i);
      for (size_t j = 0; j < kSide; ++j) {
        const int64_t x = x0 + static_cast<int64_t>(j);
        const bool is_inside = y >= 0 && y < w.in_h && x >= 0 && x < w.in_w;
        pixels[i * kSide + j] =
            is_inside ? image + static_cast<size_t>(y) * row_step + static_cast<size_t>(x) * channels : block.zeros;
      }
    }
    over_vectors(channels, [&](auto whole, size_t c, size_t left) HWY_ATTR {
      transform_patch<Tile>([&](size_t i, size_t j)
                                HWY_ATTR { return load(d, whole, pixels[i * kSide + j] + c, left); },
                            to + c, block.patch_point);
    });
  }
}

/// Patches [begin, end) of the block.
void TransformPatches(const Winograd& w, const WinogradBlock& block, size_t begin, size_t end) {
  if (w.tile == 4) {
    transform_patches<TileOf4>(w, block, begin, end);
  } else {
    transform_patches<TileOf2>(w, block, begin, end);
  }
}

// ----------------------------------------------------------------------------------------------------------------
// products

/// Factors of a product, a sum of `planes` products: left[rows, depth] at each `plane_step` · right[planes · depth,
/// columns].
struct Factors {
  const float* left;
  size_t left_stride, plane_step;  // floats
  size_t planes, depth;
  const float* right;
};

/// out[kCount, kVectors vectors] is the product. What stands at `ahead`, as large as `right`, is brought into the
/// second cache meanwhile (nullptr: nothing is).
template <size_t kCount, size_t kVectors>
HWY_INLINE void multiply_rows(const Factors& factors, float* out, const float* ahead) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const size_t left_stride = factors.left_stride, depth = factors.depth;
  const float* right = factors.right;
  V sums[kCount][kVectors];
#pragma GCC unroll 12
  for (size_t r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      sums[r][v] = hn::Zero(d);
    }
  }
  for (size_t plane = 0; plane < factors.planes; ++plane) {
    // Four rows share an address register, so that all of them fit.
    const float* rows[(kCount + 3) / 4];
#pragma GCC unroll 3
    for (size_t r = 0; r < kCount; r += 4) {
      rows[r / 4] = factors.left + plane * factors.plane_step + r * left_stride;
    }
    for (size_t k = 0; k < depth; ++k) {
      V b[kVectors];
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        b[v] = hn::LoadU(d, right + v * lanes);
      }
#pragma GCC unroll 12
      for (size_t r = 0; r < kCount; ++r) {
        const V a = hn::Set(d, rows[r / 4][r % 4 * left_stride + k]);
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) {
          sums[r][v] = hn::MulAdd(a, b[v], sums[r][v]);
        }
      }
      if (ahead != nullptr) {
#pragma GCC unroll 2
        for (size_t v = 0; v < kVectors; ++v) {
          __builtin_prefetch(ahead + v * lanes, 0, 2);
        }
        ahead += kVectors * lanes;
      }
      right += kVectors * lanes;
    }
  }
#pragma GCC unroll 12
  for (size_t r = 0; r < kCount; ++r) {
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], d, out + (r * kVectors + v) * lanes);
    }
  }
}

template <size_t kCount, size_t kVectors>
void multiply_some(size_t count, const Factors& factors, float* out, const float* ahead) {
  if constexpr (kCount > 1) {
    if (count < kCount) {
      multiply_some<kCount - 1, kVectors>(count, factors, out, ahead);
      return;
    }
  }
  multiply_rows<kCount, kVectors>(factors, out, ahead);
}

/// Planes [first, end) of a filter: those that lie in the volume when the filter begins at `plane` of it.
struct PlanesInside {
  size_t first, end;
  bool operator==(const PlanesInside& other) const { return first == other.first && end == other.end; }
};

HWY_INLINE PlanesInside planes_inside(const Winograd& w, int64_t plane) {
  const auto step = static_cast<int64_t>(w.plane_step), planes = static_cast<int64_t>(w.planes);
  const int64_t first = plane < 0 ? HWY_MIN(divide_up(-plane, step), planes) : 0;
  const int64_t end = plane < w.in_d ? HWY_MIN(divide_up(w.in_d - plane, step), planes) : 0;
  return {static_cast<size_t>(first), static_cast<size_t>(HWY_MAX(first, end))};
}

/// Tiles [begin, end) over the planes of the block, which have the same planes of the filter `inside` their volume.
/// `ahead`: the filter's next point, or nullptr.
template <size_t kVectors>
void multiply_tiles(const Winograd& w, const WinogradBlock& block, size_t point, const float* packed,
                    const PlanesInside& inside, size_t begin, size_t end, const float* ahead) {
  const size_t width = kVectors * hn::Lanes(Tag());
  const size_t passes = (end - begin + kRows - 1) / kRows;
  const size_t rows = (end - begin + passes - 1) / passes;  // passes of the same height, rather than a small last one
  const size_t plane_step = w.plane_step * block.count * block.patch_stride;
  const float* const left = block.patches + point * block.patch_point + inside.first * plane_step;
  float* const out = block.products + point * block.product_point;
  for (size_t r = begin; r < end; r += rows) {
    const Factors factors{
        left + r * block.patch_stride, block.patch_stride, plane_step,
        inside.end - inside.first,     w.in_channels,      packed + inside.first * w.in_channels * width};
    multiply_some<kRows, kVectors>(HWY_MIN(rows, end - r), factors, out + r * width, r + rows >= end ? ahead : nullptr);
  }
}

template <size_t kVectors>
void multiply_points(const Winograd& w, const WinogradBlock& block, const float* packed, size_t packed_point) {
  // Beyond the second cache, the loads of a few rows are too close together for the processor's own prefetching.
  const bool is_far = w.points() * packed_point * sizeof(float) > kNearBytes;
  for (size_t p = 0; p < w.points(); ++p) {
    const float* const right = packed + p * packed_point;
    for (size_t begin = 0, end; begin < block.planes; begin = end) {
      const PlanesInside inside = planes_inside(w, block.in_plane + static_cast<int64_t>(begin));
      for (end = begin + 1; end < block.planes; ++end) {
        if (!(planes_inside(w, block.in_plane + static_cast<int64_t>(end)) == inside)) {
          break;
        }
      }
      const float* const ahead = is_far && end == block.planes ? right + packed_point : nullptr;
      multiply_tiles<kVectors>(w, block, p, right, inside, begin * block.count, end * block.count, ahead);
    }
  }
}

// -----------------------------------------------------------------------------------------------------------------
// outputs

template <class Tile>
void transform_products(const Winograd& w, const WinogradBlock& block, size_t first, size_t columns) {
  constexpr size_t kSide = Tile::kTile + 2;
  const Tag d;
  const size_t width = strip_width(columns);
  const V low = hn::Set(d, w.min);
  const V high = hn::Set(d, w.max);
  const size_t row_step = static_cast<size_t>(w.out_w) * w.out_channels;
  const auto tile = static_cast<int64_t>(Tile::kTile);
  for (size_t t = 0; t < block.planes * block.count; ++t) {
    const TilePlace place = place_of(w, block.first + t % block.count);
    const size_t image = block.out_plane + t / block.count + place.image;
    const auto rows = static_cast<size_t>(HWY_MIN(tile, w.out_h - place.y));
    const auto pixels = static_cast<size_t>(HWY_MIN(tile, w.out_w - place.x));
    float* const to = w.out + (image * static_cast<size_t>(w.out_h) + static_cast<size_t>(place.y)) * row_step +
                      static_cast<size_t>(place.x) * w.out_channels + first;
    over_vectors(columns, [&](auto whole, size_t c, size_t left) HWY_ATTR {
      const float* const from = block.products + t * width + c;
      V half[Tile::kTile][kSide];
#pragma GCC unroll 6
      for (size_t j = 0; j < kSide; ++j) {
        V m[kSide], y[Tile::kTile];
#pragma GCC unroll 6
        for (size_t i = 0; i < kSide; ++i) {
          m[i] = hn::LoadU(d, from + (i * kSide + j) * block.product_point);
        }
        Tile::product(m, y);
#pragma GCC unroll 4
        for (size_t i = 0; i < Tile::kTile; ++i) {
          half[i][j] = y[i];
        }
      }
      const V bias = hn::LoadU(d, w.bias + first + c);
#pragma GCC unroll 4
      for (size_t i = 0; i < Tile::kTile; ++i) {
        if (i < rows) {
          V y[Tile::kTile];
          Tile::product(half[i], y);
#pragma GCC unroll 4
          for (size_t j = 0; j < Tile::kTile; ++j) {
            if (j < pixels) {
              const V limited = limit(hn::Add(y[j], bias), low, high);
              store(d, whole, limited, to + i * row_step + j * w.out_channels + c, left);
            }
          }
        }
      }
    });
  }
}

/// Output channels [first, first + columns), at most a strip, of all tiles of the block, whose patches are transformed.
void MultiplyStrip(const Winograd& w, const WinogradBlock& block, size_t first, size_t columns) {
  const size_t strip = WinogradStrip();
  const float* const packed = w.packed + first / strip * w.points() * w.packed_point(strip);
  const size_t width = strip_width(columns);
  if (width == strip) {
    multiply_points<2>(w, block, packed, w.packed_point(width));
  } else {
    multiply_points<1>(w, block, packed, w.packed_point(width));
  }
  if (w.tile == 4) {
    transform_products<TileOf4>(w, block, first, columns);
  } else {
    transform_products<TileOf2>(w, block, first, columns);
  }
}

}  // namespace et::kernels::optimized::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
