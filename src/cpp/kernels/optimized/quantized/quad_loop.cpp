// Rows of unsigned bytes and weights in quads of the depth, for processors that multiply those: integer_loops.h says
// when.
#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "kernels/optimized/amx/quad_tiles.h"
#include "kernels/optimized/quantized/integer_loops.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"
#include "kernels/optimized/quantized/pair_sums-inl.h"
#include "kernels/optimized/quantized/quad_sums-inl.h"
#include "kernels/optimized/quantized/row_results-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_LOOP_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_LOOP_ONCE
namespace et::kernels::optimized::quantized {

/// Bytes from a row to the next: tiles, whose weights are 0 there, read on in the next row. Rows do not meet in one set
/// of a cache.
inline size_t stride_of_quads(const IntegerProduct& p) {
  const size_t nbytes = p.quad_unit > 1 ? p.depth() : 4 * p.quads();
  return nbytes % 1024 == 0 ? nbytes + 64 : nbytes;
}

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

size_t IntegerLanes() { return hn::Lanes(SumTag()); }

#if HWY_ARCH_X86 && (HWY_TARGET <= HWY_AVX3_DL || HWY_TARGET == HWY_AVX2)

/// Nothing below runs where it is 0: no product is packed in quads there.
size_t HasQuads() { return has_quad_sums() ? 1 : 0; }

/// Sums, a row's quad and two vectors of weights stand in registers.
constexpr size_t kQuadTileRows = hn::MaxLanes(SumTag()) >= 16 ? 8 : 6;

/// The windows of a block's rows.
void QuadRows(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t depth = p.depth(), stride = stride_of_quads(p), nbytes = block.rows * stride;
  if (p.has_rows() && stride == depth) {
    copy_flipped(block.scratch, p.in + block.first_row * depth, nbytes, 128);
  } else {
    auto* const rows = reinterpret_cast<int8_t*>(block.scratch);
    WindowReader windows(p, block.group, block.first_row);
    for (size_t r = 0; r < block.rows; ++r) {
      int8_t* const row = rows + r * stride;
      windows.read(row);
      std::memset(row + depth, 0, stride - depth);
    }
    copy_flipped(block.scratch, rows, nbytes, 128);
  }
  std::memset(block.scratch + nbytes, 0, kQuadSlack);
}

/// The lines of the image that a block's windows meet, whole, with zero points beside it.
void QuadLinesOf(const IntegerProduct& p, const IntegerBlock& block) {
  const QuadLines lines(p);
  const auto results = static_cast<size_t>(p.out_h * p.out_w), line = static_cast<size_t>(p.out_w);
  const auto pixel = static_cast<int64_t>(p.channels);
  const int64_t image = static_cast<int64_t>(block.first_row / results);
  const int64_t top = static_cast<int64_t>(block.first_row % results / line) * p.stride_h - p.pad_h;
  const auto count = static_cast<int64_t>((block.rows / line - 1) * static_cast<size_t>(p.stride_h) + lines.halo(p));
  // Of a line: what stands before the image, of it, and behind it.
  const int64_t width = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1;
  const int64_t begin = HWY_MIN(HWY_MAX(p.pad_w, int64_t{0}), width), skipped = HWY_MAX(-p.pad_w, int64_t{0});
  const int64_t end = begin + HWY_MAX(HWY_MIN(p.in_w - skipped, width - begin), int64_t{0});
  const auto zero = static_cast<uint8_t>(static_cast<int8_t>(p.input_zero_point));
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
    copy_flipped(to + before, from, behind - before, 128);
  }
  std::memset(block.scratch + static_cast<size_t>(count) * lines.pitch, 0, kQuadSlack);
}

/// Where the windows of a line of results stand, each a row of bytes or more: `stride` bytes from one to the next, in
/// `rows` that are `row_step` apart, of so many runs of `quads`.
struct QuadWindows {
  size_t stride, rows, row_step, runs, run_step, quads;
};

/// Rows of the output from `row` on, the first of whose windows is at `row_of_window`, times kVectors vectors of
/// columns (put_tile), of which the last `left` columns count. Of the next panel the second cache fetches `share` bytes
/// a quad from `next` on.
template <size_t kRows, size_t kVectors>
HWY_INLINE void multiply_tile(const IntegerProduct& p, const QuadWindows& windows, const uint8_t* row_of_window,
                              const int8_t* weights, size_t row, size_t column, size_t first, size_t left,
                              const int8_t* next, size_t share) {
  const SumTag d;
  const hn::Repartition<int8_t, SumTag> db;
  const size_t lanes = hn::Lanes(d), stride = windows.stride, quads = windows.quads;
  constexpr size_t kSums = kRows * kVectors;
  constexpr size_t kParts = kSums >= 8 ? 1 : 8 / kSums;  // of the depth, so that no sum waits for the one before
  hn::Vec<SumTag> sums[kParts * kSums];
  start_tile<kRows, kVectors>(p, row, column, sums);
  const uint8_t* x = row_of_window;
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
        sum = add_quads<kMayHaveAvxVnni>(sum, bytes, w[v]);
      }
    }
  };
  for (size_t i = 0; i < windows.rows; ++i, row_of_window += windows.row_step) {
    x = row_of_window;
    for (size_t j = 0; j < windows.runs; ++j, x += windows.run_step) {
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
      weights += 4 * quads * kVectors * lanes;
      next += quads * share;
    }
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

/// The lines of results that windows stand in.
struct QuadWindowLines {
  size_t count, step;  ///< bytes from one to the next
};

#if HWY_TARGET <= HWY_AVX3_DL

/// Sums of tiles, the first of which are of row `top`, to the results of rows [begin, end) of a line, which is at `row`
/// of all results.
template <size_t kVectors>
HWY_INLINE void put_sums(const IntegerProduct& p, const amx::QuadSums& tiles, size_t top, size_t begin, size_t end,
                         size_t row, size_t column, size_t first, size_t left) {
  const SumTag d;
  const size_t lanes = hn::Lanes(d);
  const auto put = [&](auto height, size_t at) HWY_ATTR {
    constexpr size_t kRows = decltype(height)::value;
    hn::Vec<SumTag> sums[kRows * kVectors];
    start_tile<kRows, kVectors>(p, row + at, column, sums);
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows * kVectors; ++i) {
      sums[i] = hn::Add(sums[i], hn::LoadU(d, &tiles[at - top + i / kVectors][i % kVectors * lanes]));
    }
    put_tile<kRows, kVectors>(p, row + at, column, first, left, sums);
  };
  constexpr size_t kRows = 8;
  for (; begin + kRows <= end; begin += kRows) {
    put(std::integral_constant<size_t, kRows>(), begin);
  }
  for (; begin < end; ++begin) {
    put(std::integral_constant<size_t, 1>(), begin);
  }
}

/// multiply_panels() by tiles. They go over the ends of lines where that takes fewer of them: windows that lie between
/// two lines are multiplied, too, and have no results.
HWY_INLINE void multiply_panels_by_tiles(const IntegerProduct& p, const IntegerBlock& block, const QuadWindows& windows,
                                         QuadWindowLines lines) {
  const auto* const packed = reinterpret_cast<const int8_t*>(p.packed);
  const size_t line = block.rows / lines.count, apart = lines.step / windows.stride;  // windows
  const size_t through = (lines.count - 1) * apart + line;
  const auto blocks_of = [](size_t rows) { return (rows + amx::kQuadBlock - 1) / amx::kQuadBlock; };
  const bool goes_through = lines.step % windows.stride == 0 && blocks_of(through) < lines.count * blocks_of(line);
  const size_t count = goes_through ? through : line, strips = goes_through ? 1 : lines.count;
  const size_t pitch = goes_through ? apart : count;  // of a strip's lines
  amx::configure_quad_tiles(count);
  for_panels(p, block, [&](auto vectors, size_t column, size_t first, size_t left) HWY_ATTR {
    constexpr size_t kVectors = decltype(vectors)::value;
    alignas(64) amx::QuadSums sums;
    const size_t nbytes = 4 * kVectors * hn::Lanes(SumTag()) * p.quads();
    amx::QuadTiles t{};
    t.stride = windows.stride;
    t.count = count;
    t.window_rows = windows.rows, t.row_step = windows.row_step;
    t.runs = windows.runs, t.run_step = windows.run_step;
    t.steps = windows.quads / amx::kTileQuads;
    t.panel = packed + column * 4 * p.quads();
    t.is_wide = kVectors == 2;
    t.next = t.panel + nbytes;
    const size_t steps = p.quads() / amx::kTileQuads, blocks = blocks_of(count) * strips;
    t.share = blocks > 1 ? nbytes / (blocks * steps) : 0;
    for (size_t strip = 0; strip < strips; ++strip) {
      t.rows = block.scratch + strip * lines.step;
      for (size_t row = 0; row < count; row += amx::kQuadBlock, t.next += t.share * steps) {
        const size_t top = amx::multiply_quad_tiles(t, row, sums), end = HWY_MIN(row + amx::kQuadBlock, count);
        // Row r is window r - i * pitch of line i.
        for (size_t i = row / pitch, before = i * pitch; before < end; ++i, before += pitch) {
          const size_t begin_of_line = HWY_MAX(row, before), end_of_line = HWY_MIN(end, before + line);
          if (begin_of_line < end_of_line) {
            const size_t results = block.first_row + (strip + i) * line - before;
            put_sums<kVectors>(p, sums, top, begin_of_line, end_of_line, results, column,
                               block.group * p.columns + first, left);
          }
        }
      }
    }
  });
  amx::release_quad_tiles();
}

#endif

/// Panels [begin, end) of a block's group.
HWY_INLINE void multiply_panels(const IntegerProduct& p, const IntegerBlock& block, const QuadWindows& windows,
                                QuadWindowLines lines) {
#if HWY_TARGET <= HWY_AVX3_DL
  constexpr size_t kLeastRows = 4;  // of a tile
  if (p.quad_unit > 1 && block.rows >= kLeastRows) {
    return multiply_panels_by_tiles(p, block, windows, lines);
  }
#endif
  const auto* const packed = reinterpret_cast<const int8_t*>(p.packed);
  for_panels(p, block, [&](auto vectors, size_t column, size_t first, size_t left) HWY_ATTR {
    constexpr size_t kVectors = decltype(vectors)::value;
    const int8_t* const weights = packed + column * 4 * p.quads();
    const size_t of_a_quad = 4 * kVectors * hn::Lanes(SumTag()), nbytes = of_a_quad * p.quads();
    const size_t of_a_line = block.rows / lines.count;
    for (size_t line = 0; line < lines.count; ++line) {
      for_even_tiles<kQuadTileRows>(of_a_line, [&](auto height, size_t at) HWY_ATTR {
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
  multiply_panels(p, block, {stride_of_quads(p), 1, 0, 1, 0, p.quads()}, {1, 0});
}

void QuadLinePanels(const IntegerProduct& p, const IntegerBlock& block) {
  const QuadLines lines(p);
  const auto rows = static_cast<size_t>(p.kernel_h), pixel = p.channels;
  const QuadWindows windows{static_cast<size_t>(p.stride_w) * pixel,         rows,
                            static_cast<size_t>(p.dilation_h) * lines.pitch, p.runs() / rows,
                            static_cast<size_t>(p.dilation_w) * pixel,       p.quads() / p.runs()};
  multiply_panels(p, block, windows,
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
  return multiplies_quads() && p.taps > 1 && p.groups == 1 && p.stride_w <= p.kernel_w && p.stride_h <= p.kernel_h;
}
/// A block has whole lines, which threads do not share: a signal of one line is short.
bool are_small(const IntegerProduct& p) {
  const size_t most = p.out_h == 1 ? 32 << 10 : kBlockBytes;
  return QuadLines::halo(p) * QuadLines(p).pitch <= most;
}
}  // namespace

QuadLines::QuadLines(const IntegerProduct& p) {
  const int64_t pixels = (p.out_w - 1) * p.stride_w + (p.kernel_w - 1) * p.dilation_w + 1;
  const size_t nbytes = static_cast<size_t>(pixels) * p.channels;
  const size_t unit = unit_of_quads() == 1 ? 64 : static_cast<size_t>(p.stride_w) * p.channels;
  pitch = round_up(nbytes, unit);
  pitch += pitch % 1024 == 0 ? unit : 0;  // lines do not meet in one set of a cache
}
bool QuadLines::fit(const IntegerProduct& p) {
  const size_t unit = unit_of_quads();
  const int64_t least_width = unit == 1 ? 6 : 1;  // tiles go over the ends of lines
  return p.padded_run != 0 ||
         (has_windows(p) && p.run_taps() * p.channels % (4 * unit) == 0 && p.out_w >= least_width && are_small(p));
}
size_t QuadLines::padded_run(const IntegerProduct& p) {
  constexpr size_t kMost = 4096;  // so is kernel_w: 12 bits of a key
  const size_t unit = 4 * unit_of_quads();
  const size_t width = p.run_taps() * p.channels, padded = round_up(width, unit);
  // A third more products at most, 3 numbers to 4, 9 to 12. Those of tiles are cheap, above all where they are few:
  // to write their sums takes longer.
  const bool is_worth_it = unit == 4 ? 3 * padded <= 4 * width : padded <= (p.runs() <= 4 ? 8 : 4) * width;
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
