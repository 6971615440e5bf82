// Rows of signed bytes and unsigned weights, whose sums of 16 bits may wrap: integer_loops.h says when.
//
// `pmaddubsw` multiplies four numbers of a row by a vector of columns, whose weights are more by 128, and adds pairs of
// products in 16 bits. Such sums of several quads are right modulo 2^16. Less 128 times the row's numbers they are sums
// of products with the weights themselves, and no larger than the norm of those weights times that of those numbers
// (Cauchy-Schwarz). Where that is below 2^15 the 16 bits are the sum, whatever was lost on the way. The norms of
// weights are packed with them, those of rows are computed with the rows; each is the largest of its tile or vector.
//
// One instruction alone saturates where both numbers of a pair are large. Quads of a tile that have such a pair in one
// of their rows are multiplied in 16 bits, and are zeros among the bytes.
#include "kernels/optimized/quantized/byte_layout.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>

#include "kernels/optimized/quantized/pair_sums-inl.h"
#include "kernels/optimized/quantized/row_results-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86

using UnitTag = hn::CappedTag<int16_t, kUnit>;
using PairOfUnit = hn::RepartitionToWide<UnitTag>;
using TwoTag = hn::Full128<int32_t>;
constexpr size_t kSteps = kUnit / hn::MaxLanes(UnitTag());

size_t HasBytes() { return 1; }

/// What even and odd lanes add up to, in the first two lanes.
template <class V>
HWY_INLINE hn::Vec<TwoTag> both_lanes(V v) {
  if constexpr (hn::MaxLanes(hn::DFromV<V>()) == 8) {
    const auto four = hn::Add(hn::LowerHalf(v), hn::UpperHalf(TwoTag(), v));
    return hn::Add(four, hn::Shuffle1032(four));
  } else {
    return hn::Add(v, hn::Shuffle1032(v));
  }
}
struct TwoLanes {
  int32_t first, second;
};
HWY_INLINE TwoLanes extract(hn::Vec<TwoTag> v) {
  const int64_t bits = hn::GetLane(hn::BitCast(hn::Full128<int64_t>(), v));
  return {static_cast<int32_t>(bits), static_cast<int32_t>(bits >> 32)};
}
HWY_INLINE int32_t start_of(TwoLanes sums) {
  return static_cast<int32_t>((static_cast<uint32_t>(-128 * sums.first) & 0xFFFF) |
                              static_cast<uint32_t>(-128 * sums.second) << 16);
}
HWY_INLINE float norm_of(TwoLanes squares) {
  return std::sqrt(static_cast<float>(HWY_MAX(squares.first, squares.second)));
}

/// Packs `weights`, i8 [quads][lanes][4].
void PackBytes(const int8_t* weights, size_t quads, size_t units, char* to) {
  const SumTag d;
  const WideTag dw;
  const hn::Rebind<int8_t, WideTag> db;
  const size_t lanes = hn::Lanes(d), half = 2 * lanes;
  auto* const column_sums = reinterpret_cast<int32_t*>(to);
  auto* const of_pairs = reinterpret_cast<float*>(column_sums + lanes);
  float* const of_units = of_pairs + units / 2;
  auto* const packed = reinterpret_cast<uint8_t*>(to) + ByteRecord::weights_offset(units, lanes);
  const auto one = hn::Set(dw, int16_t{1});
  auto low = hn::Zero(d), high = hn::Zero(d);  // sums of 16-bit lanes, of the first half of the columns and the second
  hn::Vec<SumTag> squares[2], of_two[2] = {hn::Zero(d), hn::Zero(d)};
  for (size_t u = 0; u < units; ++u) {
    squares[0] = squares[1] = hn::Zero(d);
    for (size_t q = kUnitQuads * u; q < kUnitQuads * (u + 1); ++q) {
      uint8_t* const bytes = packed + 2 * half * q;
      if (q >= quads) {
        std::fill_n(bytes, 2 * half, uint8_t{128});
        continue;
      }
      const int8_t* const quad = weights + 2 * half * q;
      for (size_t i = 0; i < 2 * half; ++i) {
        bytes[i] = static_cast<uint8_t>(quad[i]) ^ uint8_t { 128 };
      }
      const auto first = hn::PromoteTo(dw, hn::LoadU(db, quad)), second = hn::PromoteTo(dw, hn::LoadU(db, quad + half));
      low = hn::Add(low, hn::WidenMulPairwiseAdd(d, first, one));
      high = hn::Add(high, hn::WidenMulPairwiseAdd(d, second, one));
      squares[0] = hn::Add(squares[0], hn::WidenMulPairwiseAdd(d, first, first));
      squares[1] = hn::Add(squares[1], hn::WidenMulPairwiseAdd(d, second, second));
    }
    const auto largest = [&](const hn::Vec<SumTag>* of) HWY_ATTR {
      return std::sqrt(static_cast<float>(hn::ReduceMax(d, hn::Max(of[0], of[1]))));
    };
    of_units[u] = largest(squares);
    for (size_t i = 0; i < 2; ++i) {
      of_two[i] = u % 2 == 0 ? squares[i] : hn::Add(of_two[i], squares[i]);
    }
    if (u % 2 == 1) {
      of_pairs[u / 2] = largest(of_two);
    }
  }
  HWY_ALIGN int32_t of_lanes[2 * hn::MaxLanes(d)];
  hn::Store(low, d, of_lanes);
  hn::Store(high, d, of_lanes + lanes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    column_sums[lane] = of_lanes[2 * lane] + of_lanes[2 * lane + 1];
  }
}

/// Makes the rows of a tile from windows `from`, whose numbers become less by `shift`.
template <size_t kRows>
HWY_INLINE void arrange_tile(const int8_t* const* from, int16_t shift, const ByteTile& tile) {
  const UnitTag d;
  const PairOfUnit d_pairs;
  const hn::Rebind<int8_t, UnitTag> db;
  constexpr size_t kLanes = hn::MaxLanes(UnitTag());
  const size_t most_heavy = kUnitQuads * tile.units / 3;
  const auto one = hn::Set(d, int16_t{1}), less = hn::Set(d, shift);
  HWY_ALIGN int16_t numbers[kRows][kUnit];
  TwoLanes sums_before[kRows] = {};
  hn::Vec<TwoTag> squares_before[kRows];
  std::fill_n(squares_before, kRows, hn::Zero(TwoTag()));
  size_t heavy = 0;
  bool is_wide = false;  // nothing is multiplied as bytes
  std::fill_n(tile.totals, kRows, 0);
  for (size_t u = 0; u < tile.units; ++u) {
    hn::Vec<PairOfUnit> worst[kSteps];
    for (size_t i = 0; i < kSteps; ++i) {
      worst[i] = hn::Zero(d_pairs);
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t i = 0; i < kSteps; ++i) {
        const auto bytes = hn::LoadU(db, from[r] + kUnit * u + kLanes * i);
        const auto x = hn::Sub(hn::PromoteTo(d, bytes), less);
        hn::Store(x, d, numbers[r] + kLanes * i);
        // Twice the larger sum of either sign.
        const auto apart = hn::WidenMulPairwiseAdd(d_pairs, hn::Abs(x), one);
        const auto together = hn::Abs(hn::WidenMulPairwiseAdd(d_pairs, x, one));
        worst[i] = hn::Max(worst[i], hn::Add(apart, together));
      }
    }
    auto worst_of_all = worst[0];
    for (size_t i = 1; i < kSteps; ++i) {
      worst_of_all = hn::Max(worst_of_all, worst[i]);
    }
    if (is_wide || !hn::AllTrue(d_pairs, hn::Le(worst_of_all, hn::Set(d_pairs, 2 * kMostPair)))) {
      HWY_ALIGN int32_t of_pairs[kUnit / 2];
      for (size_t i = 0; i < kSteps; ++i) {
        hn::Store(worst[i], d_pairs, of_pairs + kLanes / 2 * i);
      }
      for (size_t q = 0; q < kUnitQuads; ++q) {
        if (!is_wide && HWY_MAX(of_pairs[2 * q], of_pairs[2 * q + 1]) <= 2 * kMostPair) {
          continue;
        }
        tile.places[heavy] = static_cast<uint32_t>(kUnitQuads * u + q);
        for (size_t r = 0; r < kRows; ++r) {
          int16_t* const four = numbers[r] + 4 * q;
          const int16_t ordered[4] = {four[0], four[2], four[1], four[3]};
          std::memcpy(tile.wide + (heavy * kRows + r) * 4, ordered, sizeof(ordered));
          std::memset(four, 0, sizeof(ordered));
        }
        ++heavy;
      }
      if (!is_wide && heavy > most_heavy) {  // once more
        is_wide = true;
        heavy = 0;
        u = static_cast<size_t>(-1);
        continue;
      }
    }
    if (is_wide) {
      continue;
    }
    auto most = hn::Zero(TwoTag()), most_of_pair = most;
    for (size_t r = 0; r < kRows; ++r) {
      auto sums = hn::Zero(d_pairs), squares = sums;
      for (size_t i = 0; i < kSteps; ++i) {
        const auto x = hn::Load(d, numbers[r] + kLanes * i);
        hn::StoreU(hn::DemoteTo(db, x), db, tile.bytes + r * tile.stride + kUnit * u + kLanes * i);
        sums = hn::Add(sums, hn::WidenMulPairwiseAdd(d_pairs, x, one));
        squares = hn::Add(squares, hn::WidenMulPairwiseAdd(d_pairs, x, x));
      }
      const TwoLanes of_row = extract(both_lanes(sums));
      const auto squares_of_row = both_lanes(squares);
      most = hn::Max(most, squares_of_row);
      tile.starts[u * kRows + r] = start_of(of_row);
      tile.shares[u * kRows + r] = -128 * (of_row.first + of_row.second);
      // Wraps, as sums in vectors do.
      tile.totals[r] = static_cast<int32_t>(static_cast<uint32_t>(tile.totals[r]) +
                                            static_cast<uint32_t>(tile.shares[u * kRows + r]));
      if (u % 2 == 0) {
        sums_before[r] = of_row;
        squares_before[r] = squares_of_row;
      } else {
        const TwoLanes before = sums_before[r];
        tile.starts_of_pairs[u / 2 * kRows + r] =
            start_of({before.first + of_row.first, before.second + of_row.second});
        most_of_pair = hn::Max(most_of_pair, hn::Add(squares_before[r], squares_of_row));
      }
    }
    tile.of_units[u] = norm_of(extract(most));
    if (u % 2 == 1) {
      tile.of_pairs[u / 2] = norm_of(extract(most_of_pair));
    }
  }
  tile.heavy[0] = static_cast<uint32_t>(heavy);
  tile.heavy[1] = static_cast<uint32_t>(is_wide ? 0 : tile.units);
}

/// Rows of a tile whose sums stand in registers.
constexpr size_t kByteTileRows = kPairTileRows;

/// The windows of a block's rows, in tiles.
void ByteRows(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t depth = p.depth(), padded = kUnit * units_of(p);
  auto* const windows = reinterpret_cast<int8_t*>(block.scratch + block.rows * byte_row_nbytes(p));
  const auto shift = static_cast<int16_t>(shift_of_bytes(p.input_zero_point));
  WindowReader reader(p, block.group, block.first_row);
  for_even_tiles<kByteTileRows>(block.rows, [&](auto height, size_t row) HWY_ATTR {
    constexpr size_t kRows = decltype(height)::value;
    const int8_t* from[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      const size_t of = block.first_row + row + r;
      from[r] = p.in + of * depth;
      if (!p.has_rows() || padded != depth) {
        int8_t* const window = windows + r * padded;
        reader.read(window);
        std::fill(window + depth, window + padded, static_cast<int8_t>(shift));
        from[r] = window;
      }
    }
    arrange_tile<kRows>(from, shift, ByteTile(p, block.scratch + row * byte_row_nbytes(p), kRows));
  });
}

/// Has the compiler keep a sum in the register that it was in. GCC copies each of them twice a step otherwise.
template <class V>
HWY_INLINE void stay(V& sum) {
#if HWY_COMPILER_GCC_ACTUAL
  asm("" : "+x"(sum.raw));  // NOLINT(hicpp-no-assembler)
#else
  (void)sum;
#endif
}

/// kOnes, again in each step of a loop.
HWY_INLINE const int16_t* ones_of(size_t step) {
  const int16_t* ones = kOnes;
#if HWY_COMPILER_GCC_ACTUAL
  asm("" : "+r"(ones) : "r"(step));  // NOLINT(hicpp-no-assembler)
#else
  (void)step;
#endif
  return ones;
}

/// What a tile meets: weights of one vector of columns or two.
template <size_t kVectors>
struct ByteColumns {
  ByteColumns(const char* packed, size_t units) {
    const size_t lanes = hn::Lanes(SumTag()), nbytes = ByteRecord::nbytes(units, lanes);
    const ByteRecord first(packed, units, lanes), second(packed + (kVectors - 1) * nbytes, units, lanes);
    of_pairs[0] = first.of_pairs, of_pairs[1] = second.of_pairs;
    of_units[0] = first.of_units, of_units[1] = second.of_units;
    weights[0] = first.weights, weights[1] = second.weights;
  }
  const float *of_pairs[2], *of_units[2];
  const uint8_t* weights[2];
};

/// What most sums of 16 bits of a tile cover. A branch that is often taken and often not costs more than it saves.
enum class ByteRun { kQuad, kUnit, kTwoUnits };

/// How many of n products of norms are small enough.
HWY_INLINE size_t count_small(const float* first, const float* second, const float* rows, size_t n) {
  const hn::CappedTag<float, 8> d;
  const auto most = hn::Set(d, kMostSum);
  size_t i = 0, count = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto columns = hn::Max(hn::LoadU(d, first + i), hn::LoadU(d, second + i));
    count += hn::CountTrue(d, hn::Le(hn::Mul(columns, hn::LoadU(d, rows + i)), most));
  }
  for (; i < n; ++i) {
    count += HWY_MAX(first[i], second[i]) * rows[i] <= kMostSum ? 1 : 0;
  }
  return count;
}
template <size_t kVectors>
HWY_INLINE ByteRun run_of(const ByteTile& tile, const ByteColumns<kVectors>& columns) {
  const size_t units = tile.heavy[1], pairs = units / 2;
  if (8 * count_small(columns.of_pairs[0], columns.of_pairs[1], tile.of_pairs, pairs) >= 7 * pairs) {
    return ByteRun::kTwoUnits;
  }
  const size_t count = count_small(columns.of_units[0], columns.of_units[1], tile.of_units, units);
  return 8 * count >= 7 * units ? ByteRun::kUnit : ByteRun::kQuad;
}

/// Calls add(sum, products) for quad `q` of x and weights, for rows and vectors, `stride` bytes from a row to the next.
template <size_t kRows, size_t kVectors, class Add>
HWY_INLINE void for_quad(const int8_t* x, size_t stride, const uint8_t* weights, ptrdiff_t to_second, size_t q,
                         const Add& add) {
  const hn::Repartition<uint8_t, SumTag> db;
  constexpr size_t kVector = hn::MaxLanes(db), kOfLine = kVector < kChainAlignment ? kChainAlignment / kVector : 1;
  hn::Vec<decltype(db)> w[kVectors];
#pragma GCC unroll 2
  for (size_t v = 0; v < kVectors; ++v) {
    const uint8_t* const from = weights + static_cast<ptrdiff_t>(v) * to_second + q * kVector;
    w[v] = hn::LoadU(db, from);
    if (kRows >= kRowsOfFetching && q % kOfLine == 0) {
      hwy::Prefetch(from + kAhead);
    }
  }
#pragma GCC unroll 8
  for (size_t r = 0; r < kRows; ++r) {
    const auto bytes = hn::BitCast(hn::RebindToSigned<decltype(db)>(), four(x + r * stride + 4 * q));
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      add(r * kVectors + v, hn::SatWidenMulPairwiseAdd(WideTag(), w[v], bytes));
    }
  }
}

/// Adds the products of quads to `sums`, one by one; `shares`: of their rows.
template <size_t kRows, size_t kVectors>
HWY_NOINLINE void add_each(const int8_t* x, size_t stride, const uint8_t* weights, ptrdiff_t to_second, size_t units,
                           const int32_t* shares, int32_t* sums) {
  const SumTag d;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kSums = kRows * kVectors;
  hn::Vec<SumTag> of_quads[kSums];
#pragma GCC unroll 16
  for (size_t i = 0; i < kSums; ++i) {
    of_quads[i] = hn::Add(hn::Load(d, sums + i * lanes), hn::Set(d, shares[i / kVectors]));
    stay(of_quads[i]);
  }
  const auto one = hn::Set(WideTag(), int16_t{1});
#pragma GCC unroll 1
  for (size_t q = 0; q < kUnitQuads * units; ++q, x += 4, weights += 4 * lanes) {
    for_quad<kRows, kVectors>(x, stride, weights, to_second, 0, [&](size_t i, auto products) HWY_ATTR {
      of_quads[i] = hn::Add(of_quads[i], hn::WidenMulPairwiseAdd(d, products, one));
      stay(of_quads[i]);
    });
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < kSums; ++i) {
    hn::Store(of_quads[i], d, sums + i * lanes);
  }
}

/// Adds the products of a tile's bytes to `sums`, i32 [kRows][kVectors][lanes], kUnits units at a time. They are no
/// array of the caller's, which would take the registers of those in 16 bits.
template <size_t kRows, size_t kVectors, size_t kUnits>
HWY_NOINLINE void add_bytes(const ByteTile& tile, const ByteColumns<kVectors>& columns, int32_t* sums) {
  const SumTag d;
  const WideTag dw;
  const size_t lanes = hn::Lanes(d), runs = tile.heavy[1] / kUnits, stride = tile.stride;
  const ptrdiff_t to_second = columns.weights[1] - columns.weights[0];
  const float* const first = kUnits == 2 ? columns.of_pairs[0] : columns.of_units[0];
  const float* const second = kUnits == 2 ? columns.of_pairs[1] : columns.of_units[1];
  const float* const of_rows = kUnits == 2 ? tile.of_pairs : tile.of_units;
  const int32_t* starts = kUnits == 2 ? tile.starts_of_pairs : tile.starts;
  const int8_t* x = tile.bytes;
  const uint8_t* weights = columns.weights[0];
  constexpr size_t kSums = kRows * kVectors;
  for (size_t i = 0; i < runs; ++i, starts += kRows) {
    if (HWY_MAX(first[i], second[i]) * of_rows[i] > kMostSum) {
      for (size_t u = kUnits * i; u < kUnits * (i + 1); ++u, x += kUnit, weights += kUnit * lanes) {
        add_each<kRows, kVectors>(x, stride, weights, to_second, 1, tile.shares + u * kRows, sums);
      }
      continue;
    }
    hn::Vec<WideTag> wrapped[kSums];
#pragma GCC unroll 16
    for (size_t s = 0; s < kSums; ++s) {
      wrapped[s] = hn::BitCast(dw, four(starts + s / kVectors));
      stay(wrapped[s]);
    }
#pragma GCC unroll 1
    for (size_t u = 0; u < kUnits; ++u, x += kUnit, weights += kUnit * lanes) {
#pragma GCC unroll 4
      for (size_t q = 0; q < kUnitQuads; ++q) {
        for_quad<kRows, kVectors>(x, stride, weights, to_second, q, [&](size_t s, auto products) HWY_ATTR {
          wrapped[s] = hn::Add(wrapped[s], products);
          stay(wrapped[s]);
        });
      }
    }
    const auto one = hn::LoadU(dw, ones_of(i));
#pragma GCC unroll 16
    for (size_t s = 0; s < kSums; ++s) {
      const auto sum = hn::Add(hn::Load(d, sums + s * lanes), hn::WidenMulPairwiseAdd(d, wrapped[s], one));
      hn::Store(sum, d, sums + s * lanes);
    }
  }
}

/// The same for what is multiplied in 16 bits: even numbers of quads, or odd ones.
template <size_t kRows, size_t kVectors, size_t kHalf>
HWY_INLINE void add_heavy_half(const ByteTile& tile, const ByteColumns<kVectors>& columns,
                               hn::Vec<SumTag>* HWY_RESTRICT sums) {
  const WideTag dw;
  const hn::Repartition<uint8_t, SumTag> db;
  const size_t nbytes = hn::Lanes(db);
  const int16_t* wide = tile.wide + 2 * kHalf;
  for (size_t i = 0, heavy = tile.heavy[0]; i < heavy; ++i, wide += 4 * kRows) {
    hn::Vec<WideTag> w[kVectors];
#pragma GCC unroll 2
    for (size_t v = 0; v < kVectors; ++v) {
      const auto bytes = hn::LoadU(db, columns.weights[v] + nbytes * tile.places[i]);
      const auto numbers = hn::BitCast(dw, hn::Xor(bytes, hn::Set(db, uint8_t{128})));
      w[v] = hn::ShiftRight<8>(kHalf == 0 ? hn::ShiftLeft<8>(numbers) : numbers);
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      const auto pair = hn::BitCast(dw, four(wide + 4 * r));
#pragma GCC unroll 2
      for (size_t v = 0; v < kVectors; ++v) {
        auto& sum = sums[r * kVectors + v];
        sum = hn::Add(sum, hn::WidenMulPairwiseAdd(SumTag(), pair, w[v]));
        stay(sum);
      }
    }
  }
}
template <size_t kRows, size_t kVectors>
HWY_NOINLINE void add_heavy(const ByteTile& tile, const ByteColumns<kVectors>& columns, int32_t* sums) {
  const SumTag d;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kSums = kRows * kVectors;
  hn::Vec<SumTag> of_heavy[kSums];
#pragma GCC unroll 16
  for (size_t i = 0; i < kSums; ++i) {
    of_heavy[i] = hn::Load(d, sums + i * lanes);
  }
  add_heavy_half<kRows, kVectors, 0>(tile, columns, of_heavy);
  add_heavy_half<kRows, kVectors, 1>(tile, columns, of_heavy);
#pragma GCC unroll 16
  for (size_t i = 0; i < kSums; ++i) {
    hn::Store(of_heavy[i], d, sums + i * lanes);
  }
}

/// Rows of the output from `row` on times kVectors vectors of columns from `column` on, of which the last `left` count.
template <size_t kRows, size_t kVectors>
HWY_INLINE void multiply_tile(const IntegerProduct& p, const ByteTile& tile, const ByteColumns<kVectors>& columns,
                              size_t row, size_t column, size_t first, size_t left) {
  const SumTag d;
  const size_t lanes = hn::Lanes(d);
  constexpr size_t kSums = kRows * kVectors;
  HWY_ALIGN int32_t sums[kSums * hn::MaxLanes(d)];
  hn::Vec<SumTag> of_tile[kSums];
  start_tile<kRows, kVectors>(p, row, column, of_tile);
#pragma GCC unroll 16
  for (size_t i = 0; i < kSums; ++i) {
    hn::Store(of_tile[i], d, sums + i * lanes);
  }
  switch (run_of<kVectors>(tile, columns)) {
    case ByteRun::kTwoUnits: add_bytes<kRows, kVectors, 2>(tile, columns, sums); break;
    case ByteRun::kUnit: add_bytes<kRows, kVectors, 1>(tile, columns, sums); break;
    case ByteRun::kQuad:
      add_each<kRows, kVectors>(tile.bytes, tile.stride, columns.weights[0], columns.weights[1] - columns.weights[0],
                                tile.heavy[1], tile.totals, sums);
  }
  if (tile.heavy[0] > 0) {
    add_heavy<kRows, kVectors>(tile, columns, sums);
  }
#pragma GCC unroll 16
  for (size_t i = 0; i < kSums; ++i) {
    of_tile[i] = hn::Load(d, sums + i * lanes);
  }
  put_tile<kRows, kVectors>(p, row, column, first, left, of_tile);
}

/// Panels [begin, end) of a block's group.
void BytePanels(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t lanes = hn::Lanes(SumTag()), record = ByteRecord::nbytes(units_of(p), lanes);
  for_panels(p, block, [&](auto vectors, size_t column, size_t first, size_t left) HWY_ATTR {
    constexpr size_t kVectors = decltype(vectors)::value;
    const ByteColumns<kVectors> columns(p.packed + column / lanes * record, units_of(p));
    for_even_tiles<kByteTileRows>(block.rows, [&](auto height, size_t row) HWY_ATTR {
      constexpr size_t kRows = decltype(height)::value;
      const ByteTile tile(p, block.scratch + row * byte_row_nbytes(p), kRows);
      multiply_tile<kRows, kVectors>(p, tile, columns, block.first_row + row, column, block.group * p.columns + first,
                                     left);
    });
  });
}

#else

size_t HasBytes() { return 0; }
void PackBytes(const int8_t*, size_t, size_t, char*) {}
void ByteRows(const IntegerProduct&, const IntegerBlock&) {}
void BytePanels(const IntegerProduct&, const IntegerBlock&) {}

#endif

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(BytePanels);
HWY_EXPORT(ByteRows);
HWY_EXPORT(HasBytes);
HWY_EXPORT(PackBytes);

bool multiplies_bytes() { return HWY_DYNAMIC_DISPATCH(HasBytes)() != 0; }
size_t byte_record_nbytes(const IntegerProduct& p) { return ByteRecord::nbytes(units_of(p), integer_lanes()); }
size_t byte_row_nbytes(const IntegerProduct& p) {
  return ByteTile::row_nbytes(p) + aligned_to_chain(ByteTile::wide_nbytes(p));
}
size_t byte_row_touched(const IntegerProduct& p) { return kUnit * units_of(p) * 7 / 4; }
size_t byte_block_nbytes(const IntegerProduct& p) { return 8 * kUnit * units_of(p); }
void pack_bytes(const IntegerProduct& p, const int8_t* weights, char* to) {
  HWY_DYNAMIC_DISPATCH(PackBytes)(weights, p.quads(), units_of(p), to);
}
const int32_t* sums_of_record(const char* record) { return reinterpret_cast<const int32_t*>(record); }
void make_byte_rows(const IntegerProduct& p, const IntegerBlock& block) { HWY_DYNAMIC_DISPATCH(ByteRows)(p, block); }
void multiply_bytes(const IntegerProduct& p, const IntegerBlock& block) { HWY_DYNAMIC_DISPATCH(BytePanels)(p, block); }

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
