// Rows of unsigned bytes and weights in quads of the depth, for processors that multiply those: integer_loops.h says
// when.
#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "kernels/optimized/amx/quad_tiles.h"
#include "kernels/optimized/quantized/integer_loops.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstring>

#include "kernels/optimized/quantized/pair_sums-inl.h"
#include "kernels/optimized/quantized/row_results-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_LOOP_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_LOOP_ONCE
namespace et::kernels::optimized::quantized {

/// Bytes from a row to the next. Rows do not meet in one set of a cache.
inline size_t stride_of_quads(const IntegerProduct& p) {
  const size_t nbytes = 4 * p.quads();
  return nbytes % 1024 == 0 ? nbytes + 64 : nbytes;
}

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

size_t IntegerLanes() { return hn::Lanes(SumTag()); }

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL

size_t HasQuads() { return 1; }

/// The windows of a block's rows.
void QuadRows(const IntegerProduct& p, const IntegerBlock& block) {
  const hn::ScalableTag<uint8_t> d;
  const size_t depth = p.depth(), stride = stride_of_quads(p), nbytes = block.rows * stride;
  auto* const rows = reinterpret_cast<int8_t*>(block.scratch);
  if (p.has_rows() && stride == depth) {
    std::memcpy(rows, p.in + block.first_row * depth, nbytes);
  } else {
    WindowReader windows(p, block.group, block.first_row);
    for (size_t r = 0; r < block.rows; ++r) {
      int8_t* const row = rows + r * stride;
      windows.read(row);
      std::memset(row + depth, 0, stride - depth);
    }
  }
  const auto more = hn::Set(d, uint8_t{128});
  for (size_t i = 0; i < nbytes; i += hn::Lanes(d)) {  // scratch is whole lines
    hn::StoreU(hn::Xor(hn::LoadU(d, block.scratch + i), more), d, block.scratch + i);
  }
}

/// The lines of the image that a block's windows meet, whole, with zero points beside it.
void QuadLinesOf(const IntegerProduct& p, const IntegerBlock& block) {
  const hn::ScalableTag<uint8_t> d;
  const QuadLines lines(p);
  const auto results = static_cast<size_t>(p.out_h * p.out_w), line = static_cast<size_t>(p.out_w);
  const auto pixel = static_cast<int64_t>(p.channels);
  const int64_t image = static_cast<int64_t>(block.first_row / results);
  const int64_t top = static_cast<int64_t>(block.first_row % results / line) * p.stride_h - p.pad_h;
  const auto count = static_cast<int64_t>((block.rows / line - 1) * static_cast<size_t>(p.stride_h) + lines.halo(p));
  // Of a line: what stands before the image, of it, and behind it.
  const int64_t width = (p.out_w - 1) * p.stride_w + p.kernel_w;
  const int64_t begin = HWY_MIN(HWY_MAX(p.pad_w, int64_t{0}), width), skipped = HWY_MAX(-p.pad_w, int64_t{0});
  const int64_t end = begin + HWY_MAX(HWY_MIN(p.in_w - skipped, width - begin), int64_t{0});
  const auto zero = static_cast<uint8_t>(static_cast<int8_t>(p.input_zero_point));
  const auto more = hn::Set(d, uint8_t{128});
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* const to = block.scratch + static_cast<size_t>(i) * lines.pitch;
    const int64_t y = top + i;
    if (y < 0 || y >= p.in_h) {
      std::memset(to, zero ^ 128, lines.pitch);
      continue;
    }
    const int8_t* const from = p.in + ((image * p.in_h + y) * p.in_w + skipped) * pixel;
    const auto before = static_cast<size_t>(begin * pixel), behind = static_cast<size_t>(end * pixel);
    std::memset(to, zero ^ 128, before);
    std::memset(to + behind, zero ^ 128, lines.pitch - behind);
    const size_t nbytes = behind - before, whole = nbytes - nbytes % hn::Lanes(d);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(from);
    for (size_t b = 0; b < whole; b += hn::Lanes(d)) {
      hn::StoreU(hn::Xor(hn::LoadU(d, bytes + b), more), d, to + before + b);
    }
    hn::StoreN(hn::Xor(hn::LoadN(d, bytes + whole, nbytes - whole), more), d, to + before + whole, nbytes - whole);
  }
}

/// Where windows stand: `stride` bytes from one to the next, in parts of `quads` that are `step` bytes apart.
struct QuadWindows {
  size_t stride, parts, step, quads;
};

/// Rows of the output from `row` on, whose windows are x, times kVectors vectors of columns (put_tile), of which the
/// last `left` columns count. Of the next panel the second cache fetches `share` bytes a quad from `next` on.
template <size_t kRows, size_t kVectors>
HWY_INLINE void multiply_tile(const IntegerProduct& p, const QuadWindows& windows, const uint8_t* x,
                              const int8_t* weights, size_t row, size_t column, size_t first, size_t left,
                              const int8_t* next, size_t share) {
  const SumTag d;
  const hn::Repartition<int8_t, SumTag> db;
  const size_t lanes = hn::Lanes(d), stride = windows.stride, quads = windows.quads;
  constexpr size_t kSums = kRows * kVectors;
  constexpr size_t kParts = kSums >= 8 ? 1 : 8 / kSums;  // of the depth, so that no sum waits for the one before
  hn::Vec<SumTag> sums[kParts * kSums];
  start_tile<kRows, kVectors>(p, row, column, sums);
#pragma GCC unroll 16
  for (size_t i = kSums; i < kParts * kSums; ++i) {
    sums[i] = hn::Zero(d);
  }
  const auto add = [&](size_t quad, size_t part) HWY_ATTR {
    hn::Vec<decltype(db)> w[kVectors];
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      w[v] = hn::LoadU(db, weights + 4 * (quad * kVectors + v) * lanes);
      if constexpr (kRows > 1) {
        __builtin_prefetch(next + quad * share + 4 * v * lanes, 0, 2);
      }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, x + r * stride + 4 * quad, sizeof(four));
      const auto bytes = hn::BitCast(hn::RebindToUnsigned<decltype(db)>(), hn::Set(d, four));
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        auto& sum = sums[part * kSums + r * kVectors + v];
        sum = hn::SumOfMulQuadAccumulate(d, bytes, w[v], sum);
      }
    }
  };
  for (size_t of_window = 0; of_window < windows.parts; ++of_window) {
    size_t quad = 0;
    for (; quad + kParts <= quads; quad += kParts) {
#pragma GCC unroll 8
      for (size_t part = 0; part < kParts; ++part) {
        add(quad + part, part);
      }
    }
    for (; quad < quads; ++quad) {
      add(quad, 0);
    }
    x += windows.step;
    weights += 4 * quads * kVectors * lanes;
    next += quads * share;
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < kSums; ++i) {
#pragma GCC unroll 8
    for (size_t part = 1; part < kParts; ++part) {
      sums[i] = hn::Add(sums[i], sums[part * kSums + i]);
    }
  }
  put_tile<kRows, kVectors>(p, row, column, first, left, sums);
}

/// Windows stand in lines of the results.
struct QuadWindowLines {
  size_t count, step;  ///< bytes from one to the next
};

/// Sums of tiles, the first of which are of row `top`, to the results of rows [begin, end) of a line of results.
template <size_t kVectors>
HWY_INLINE void put_sums(const IntegerProduct& p, const amx::QuadSums& tiles, size_t top, size_t begin, size_t end,
                         size_t line_row, size_t column, size_t first, size_t left) {
  const SumTag d;
  const size_t lanes = hn::Lanes(d);
  for_even_tiles<8>(end - begin, [&](auto height, size_t at) HWY_ATTR {
    constexpr size_t kRows = decltype(height)::value;
    hn::Vec<SumTag> sums[kRows * kVectors];
    const size_t row = line_row + begin + at;
    start_tile<kRows, kVectors>(p, row, column, sums);
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows * kVectors; ++i) {
      const int32_t* const from = &tiles[begin + at - top + i / kVectors][i % kVectors * lanes];
      sums[i] = hn::Add(sums[i], hn::LoadU(d, from));
    }
    put_tile<kRows, kVectors>(p, row, column, first, left, sums);
  });
}

/// multiply_panels() by tiles.
HWY_INLINE void multiply_panels_by_tiles(const IntegerProduct& p, const IntegerBlock& block, const QuadWindows& windows,
                                         QuadWindowLines lines) {
  const auto* const packed = reinterpret_cast<const int8_t*>(p.packed);
  const size_t of_a_line = block.rows / lines.count;
  const size_t tiles = (of_a_line + amx::kQuadBlock - 1) / amx::kQuadBlock * lines.count;
  amx::configure_quad_tiles(of_a_line);
  for_panels(p, block, [&](auto vectors, size_t column, size_t first, size_t left) HWY_ATTR {
    constexpr size_t kVectors = decltype(vectors)::value;
    alignas(64) amx::QuadSums sums;
    const size_t nbytes = 4 * kVectors * hn::Lanes(SumTag()) * p.quads();
    const size_t steps = windows.parts * (windows.quads / amx::kTileQuads);
    amx::QuadTiles t{block.scratch,
                     windows.stride,
                     of_a_line,
                     windows.parts,
                     windows.step,
                     windows.quads / amx::kTileQuads,
                     packed + column * 4 * p.quads(),
                     kVectors == 2,
                     nullptr,
                     0};
    t.next = t.panel + nbytes;
    t.share = tiles > 1 ? nbytes / (tiles * steps) : 0;
    for (size_t line = 0; line < lines.count; ++line, t.rows += lines.step) {
      for (size_t row = 0; row < of_a_line; row += amx::kQuadBlock, t.next += t.share * steps) {
        const size_t top = amx::multiply_quad_tiles(t, row, sums);
        put_sums<kVectors>(p, sums, top, row, HWY_MIN(row + amx::kQuadBlock, of_a_line),
                           block.first_row + line * of_a_line, column, block.group * p.columns + first, left);
      }
    }
  });
  amx::release_quad_tiles();
}

/// Panels [begin, end) of a block's group.
HWY_INLINE void multiply_panels(const IntegerProduct& p, const IntegerBlock& block, const QuadWindows& windows,
                                QuadWindowLines lines) {
  constexpr size_t kLeastRows = 4;  // of a tile
  if (p.quad_unit > 1 && block.rows / lines.count >= kLeastRows) {
    return multiply_panels_by_tiles(p, block, windows, lines);
  }
  const auto* const packed = reinterpret_cast<const int8_t*>(p.packed);
  for_panels(p, block, [&](auto vectors, size_t column, size_t first, size_t left) HWY_ATTR {
    constexpr size_t kVectors = decltype(vectors)::value;
    const int8_t* const weights = packed + column * 4 * p.quads();
    const size_t of_a_quad = 4 * kVectors * hn::Lanes(SumTag()), nbytes = of_a_quad * p.quads();
    const size_t of_a_line = block.rows / lines.count;
    for (size_t line = 0; line < lines.count; ++line) {
      for_even_tiles<8>(of_a_line, [&](auto height, size_t at) HWY_ATTR {
        constexpr size_t kRows = decltype(height)::value;
        const size_t row = line * of_a_line + at;
        multiply_tile<kRows, kVectors>(p, windows, block.scratch + line * lines.step + at * windows.stride, weights,
                                       block.first_row + row, column, block.group * p.columns + first, left,
                                       weights + nbytes + row * nbytes / block.rows, kRows * of_a_quad / block.rows);
      });
    }
  });
}

void QuadPanels(const IntegerProduct& p, const IntegerBlock& block) {
  multiply_panels(p, block, {stride_of_quads(p), 1, 0, p.quads()}, {1, 0});
}

void QuadLinePanels(const IntegerProduct& p, const IntegerBlock& block) {
  const QuadLines lines(p);
  const auto parts = static_cast<size_t>(p.kernel_h), step = static_cast<size_t>(p.stride_w) * p.channels;
  multiply_panels(p, block, {step, parts, static_cast<size_t>(p.dilation_h) * lines.pitch, p.quads() / parts},
                  {block.rows / static_cast<size_t>(p.out_w), static_cast<size_t>(p.stride_h) * lines.pitch});
}

#else

size_t HasQuads() { return 0; }
void QuadRows(const IntegerProduct&, const IntegerBlock&) {}
void QuadPanels(const IntegerProduct&, const IntegerBlock&) {}
void QuadLinesOf(const IntegerProduct&, const IntegerBlock&) {}
void QuadLinePanels(const IntegerProduct&, const IntegerBlock&) {}

#endif

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(HasQuads);
HWY_EXPORT(IntegerLanes);
HWY_EXPORT(QuadPanels);
HWY_EXPORT(QuadRows);
HWY_EXPORT(QuadLinesOf);
HWY_EXPORT(QuadLinePanels);

size_t integer_lanes() { return HWY_DYNAMIC_DISPATCH(IntegerLanes)(); }
bool multiplies_quads() { return HWY_DYNAMIC_DISPATCH(HasQuads)() != 0; }
size_t unit_of_quads() { return multiplies_quads() && amx::has_integer_tiles() ? amx::kTileQuads : 1; }
size_t quad_row_nbytes(const IntegerProduct& p) { return stride_of_quads(p); }
void make_quad_rows(const IntegerProduct& p, const IntegerBlock& block) { HWY_DYNAMIC_DISPATCH(QuadRows)(p, block); }
void multiply_quads(const IntegerProduct& p, const IntegerBlock& block) { HWY_DYNAMIC_DISPATCH(QuadPanels)(p, block); }

namespace {
/// Windows of neighbours, which share pixels.
bool has_windows(const IntegerProduct& p) {
  return multiplies_quads() && p.taps > 1 && p.groups == 1 && p.dilation_w == 1 && p.stride_w <= p.kernel_w &&
         p.stride_h <= p.kernel_h;
}
/// A block has whole lines, which threads do not share: a signal of one line is short.
bool are_small(const IntegerProduct& p) {
  const size_t most = p.out_h == 1 ? 32 << 10 : kBlockBytes;
  return QuadLines::halo(p) * QuadLines(p).pitch <= most;
}
}  // namespace

QuadLines::QuadLines(const IntegerProduct& p) {
  const size_t nbytes = static_cast<size_t>((p.out_w - 1) * p.stride_w + p.kernel_w) * p.channels;
  pitch = (nbytes + 4 * unit_of_quads() - 1 + 63) / 64 * 64;  // the last row of a window is whole, too
  pitch += pitch % 1024 == 0 ? 64 : 0;                        // lines do not meet in one set of a cache
}
bool QuadLines::fit(const IntegerProduct& p) {
  constexpr int64_t kLeastWidth = 6;
  return p.padded_row != 0 ||
         (has_windows(p) && static_cast<size_t>(p.kernel_w) * p.channels % (4 * unit_of_quads()) == 0 &&
          p.out_w >= kLeastWidth && are_small(p));
}
size_t QuadLines::padded_row(const IntegerProduct& p) {
  constexpr size_t kMost = 4096;  // so is kernel_w: 12 bits of a key
  const size_t unit = 4 * unit_of_quads();
  const size_t width = static_cast<size_t>(p.kernel_w) * p.channels, padded = (width + unit - 1) / unit * unit;
  // A third more products at most, 3 numbers to 4, 9 to 12; those of tiles are cheap.
  const bool is_worth_it = unit == 4 ? 3 * padded <= 4 * width : padded <= 4 * width;
  return has_windows(p) && padded != width && is_worth_it && padded < kMost && are_small(p) ? padded : 0;
}
void make_quad_lines(const IntegerProduct& p, const IntegerBlock& block) {
  HWY_DYNAMIC_DISPATCH(QuadLinesOf)(p, block);
}
void multiply_quad_lines(const IntegerProduct& p, const IntegerBlock& block) {
  HWY_DYNAMIC_DISPATCH(QuadLinePanels)(p, block);
}

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
