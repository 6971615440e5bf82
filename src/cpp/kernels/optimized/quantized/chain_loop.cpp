// Rows of unsigned bytes and weights in chains: integer_loops.h says when, quad_chains.h how.
#include "kernels/optimized/quantized/integer_loops.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <hwy/cache_control.h>

#include <algorithm>

#include "base/rounding.h"
#include "kernels/optimized/quantized/quad_chains.h"
#include "kernels/optimized/quantized/row_results-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"
#include "kernels/optimized/vec/transpose4-inl.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_CHAIN_LOOP_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_CHAIN_LOOP_ONCE
namespace et::kernels::optimized::quantized {

/// Rows whose sums, one vector each, stand in registers.
constexpr size_t kTileRows = 8;
/// Bytes of weights that the caches fetch ahead for tiles of so many rows and more. Fewer wait for memory either way.
constexpr size_t kAhead = 4096, kRowsOfFetching = 6;

/// Quads are arranged four at a time. A block's scratch has its tiles, [groups][4][kForms][rows of the tile][4], and
/// then windows of a tile, [kTileRows][groups][16].
inline size_t groups_of(const IntegerProduct& p) { return (p.quads() + 3) / 4; }

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using SumTag = hn::ScalableTag<int32_t>;
using PairTag = hn::Repartition<int16_t, SumTag>;
using ByteTag = hn::Repartition<int8_t, SumTag>;

/// Windows of a tile, so many bytes apart, as `groups` times four quads in all forms.
template <size_t kRows>
HWY_INLINE void arrange_rows(const int8_t* windows, size_t stride, size_t groups, uint8_t* to) {
  const hn::FixedTag<uint8_t, 16> d;
  constexpr size_t kQuad = 4 * kRows, kForm = kForms * kQuad;  // bytes from a form to the next, and from a quad
  alignas(16) uint8_t orders[kForms][16];
  for (size_t i = 0; i < kForms * 16; ++i) {
    orders[i / 16][i % 16] = static_cast<uint8_t>(i % 16 / 4 * 4 + kFormOrder[i / 16][i % 4]);
  }
  const auto more = hn::Set(d, uint8_t{128});
  const auto in_form = [&](size_t row, size_t g, size_t form) HWY_ATTR {
    const auto bytes = hn::LoadU(d, reinterpret_cast<const uint8_t*>(windows) + row * stride + 16 * g);
    return hn::TableLookupBytes(hn::Xor(bytes, more), hn::Load(d, orders[form]));
  };
  alignas(16) uint8_t four_rows[4][16];
  for (size_t g = 0; g < groups; ++g, to += 4 * kForm) {
    for (size_t form = 0; form < kForms; ++form) {
      if constexpr (kRows >= 4) {
        for (size_t row = 0; row < kRows; row += 4) {
          const size_t first = HWY_MIN(row, kRows - 4);  // the last four overlap those before
          for (size_t r = 0; r < 4; ++r) {
            hn::Store(in_form(first + r, g, form), d, four_rows[r]);
          }
          transpose4(reinterpret_cast<const char*>(four_rows), reinterpret_cast<char*>(to + form * kQuad + 4 * first),
                     16, kForm);
        }
      } else {
        for (size_t r = 0; r < kRows; ++r) {
          hn::Store(in_form(r, g, form), d, four_rows[0]);
          for (size_t q = 0; q < 4; ++q) {
            std::memcpy(to + q * kForm + form * kQuad + 4 * r, four_rows[0] + 4 * q, 4);
          }
        }
      }
    }
  }
}

/// The windows of a block's rows, in tiles.
void ChainRows(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t groups = groups_of(p), stride = 16 * groups;
  auto* const windows = reinterpret_cast<int8_t*>(block.scratch + block.rows * kForms * stride);
  WindowReader reader(p, block.group, block.first_row);
  for_even_tiles<kTileRows>(block.rows, [&](auto height, size_t row) HWY_ATTR {
    constexpr size_t kRows = decltype(height)::value;
    for (size_t r = 0; r < kRows; ++r) {
      int8_t* const window = windows + r * stride;
      reader.read(window);
      std::fill(window + p.depth(), window + stride, int8_t{0});
    }
    arrange_rows<kRows>(windows, stride, groups, block.scratch + row * kForms * stride);
  });
}

/// What is left of the packed weights of a vector of columns.
struct ChainCursor {
  const uint16_t* places;
  const int8_t* weights;
};

/// Adds `count` chains of one length.
template <size_t kRows, size_t kLength>
HWY_INLINE void add_chains(const uint8_t* x, size_t count, ChainCursor* at, hn::Vec<SumTag>* HWY_RESTRICT sums) {
  const SumTag d;
  const PairTag pairs;
  const size_t nbytes = hn::Lanes(ByteTag());
  const auto ones = hn::Set(pairs, int16_t{1});
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* rows[kLength];
#pragma GCC unroll 4
    for (size_t q = 0; q < kLength; ++q) {
      rows[q] = x + at->places[q] * 4 * kRows;
      if (kRows >= kRowsOfFetching) {
        hwy::Prefetch(at->weights + q * nbytes + kAhead);
      }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      hn::Vec<PairTag> sum;
#pragma GCC unroll 4
      for (size_t q = 0; q < kLength; ++q) {
        const auto weights = hn::LoadU(ByteTag(), at->weights + q * nbytes);
        const auto bytes = hn::BitCast(hn::RebindToUnsigned<ByteTag>(), four(rows[q] + 4 * r));
        const auto products = hn::SatWidenMulPairwiseAdd(pairs, bytes, weights);
        sum = q == 0 ? products : hn::Add(sum, products);
      }
      sums[r] = hn::Add(sums[r], hn::WidenMulPairwiseAdd(d, sum, ones));
    }
    at->places += kLength;
    at->weights += kLength * nbytes;
  }
}

/// Adds `count` quads of no chain, in 16 bits.
template <size_t kRows>
HWY_INLINE void add_widened(const uint8_t* x, size_t count, ChainCursor* at, hn::Vec<SumTag>* HWY_RESTRICT sums) {
  const SumTag d;
  const PairTag pairs;
  const hn::RebindToUnsigned<PairTag> unsigned_pairs;
  const auto even = hn::Set(pairs, int16_t{255});
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const rows = x + at->places[i] * 4 * kRows;
    const auto weights = hn::BitCast(pairs, hn::LoadU(ByteTag(), at->weights));
    const auto first = hn::ShiftRight<8>(hn::ShiftLeft<8>(weights)), second = hn::ShiftRight<8>(weights);
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const auto bytes = hn::BitCast(pairs, four(rows + 4 * r));
      const auto odd = hn::BitCast(pairs, hn::ShiftRight<8>(hn::BitCast(unsigned_pairs, bytes)));
      sums[r] = hn::Add(sums[r], hn::WidenMulPairwiseAdd(d, hn::And(bytes, even), first));
      sums[r] = hn::Add(sums[r], hn::WidenMulPairwiseAdd(d, odd, second));
    }
    at->weights += hn::Lanes(ByteTag());
  }
}

/// Rows of the output from `row` on, whose windows are x, times a vector of columns (put_tile).
template <size_t kRows>
void multiply_tile(const IntegerProduct& p, const uint8_t* x, const char* packed, size_t row, size_t column,
                   size_t first, size_t count) {
  hn::Vec<SumTag> sums[kRows];
  start_tile<kRows, 1>(p, row, column, sums);
  const uint32_t* const chains = reinterpret_cast<const ChainHeader*>(packed)->chains;
  ChainCursor at = {reinterpret_cast<const uint16_t*>(packed + chain_places_offset()),
                    reinterpret_cast<const int8_t*>(packed + chain_weights_offset(p.quads()))};
  add_chains<kRows, 3>(x, chains[3], &at, sums);
  add_chains<kRows, 2>(x, chains[2], &at, sums);
  add_chains<kRows, 1>(x, chains[1], &at, sums);
  add_widened<kRows>(x, chains[0], &at, sums);
  put_tile<kRows, 1>(p, row, column, first, count, sums);
}

/// Panels [begin, end) of a block's group.
void ChainPanels(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t lanes = hn::Lanes(SumTag()), vectors = divide_up(p.columns, lanes);
  const size_t record = chain_nbytes(p.quads(), lanes), row_nbytes = chain_row_nbytes(p);
  for (size_t panel = block.begin; panel < block.end; ++panel) {
    const size_t last = HWY_MIN((panel + 1) * kPanelVectors, vectors);
    for_even_tiles<kTileRows>(block.rows, [&](auto height, size_t row) HWY_ATTR {
      for (size_t v = panel * kPanelVectors; v < last; ++v) {
        const size_t place = block.group * vectors + v;
        multiply_tile<decltype(height)::value>(
            p, block.scratch + row * row_nbytes, p.packed + place * record, block.first_row + row, place * lanes,
            block.group * p.columns + v * lanes, HWY_MIN(lanes, p.columns - v * lanes));
      }
    });
  }
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(ChainPanels);
HWY_EXPORT(ChainRows);

size_t chain_row_nbytes(const IntegerProduct& p) { return groups_of(p) * 16 * kForms; }
size_t chain_block_nbytes(const IntegerProduct& p) { return groups_of(p) * 16 * kTileRows; }
void make_chain_rows(const IntegerProduct& p, const IntegerBlock& block) { HWY_DYNAMIC_DISPATCH(ChainRows)(p, block); }
void multiply_chains(const IntegerProduct& p, const IntegerBlock& block) {
  HWY_DYNAMIC_DISPATCH(ChainPanels)(p, block);
}

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
