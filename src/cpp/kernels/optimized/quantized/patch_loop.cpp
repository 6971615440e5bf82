// Patches of 4x4 pixels for results of 2x2, and transformed 3x3 filters, in 16 bits: integer_loops.h says when.
//
// Winograd's F(2x2, 3x3) takes 16 products for four results instead of 36. With filters transformed by twice the usual
// matrix all is exact in integers: patches of 9 bits become 11, filters of 8 bits 12, and what comes out is four times
// the sum. That wraps in 32 bits as sums do, and is divided where the sum itself, of kMostPatchChannels at most, is
// known to fit in 30.
#include "kernels/optimized/quantized/integer_loops.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "kernels/optimized/quantized/pair_sums-inl.h"
#include "kernels/optimized/quantized/row_results-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_PATCH_LOOP_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_PATCH_LOOP_ONCE
namespace et::kernels::optimized::quantized {

/// Numbers from a point of a patch to the next: whole vectors, and a line more, so that points do not meet in one set
/// of a cache. A block's scratch has its patches, [rows][kPatchPoints][this].
inline size_t stride_of_points(const IntegerProduct& p) { return (p.group_channels() + 31) / 32 * 32 + 32; }

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// Where patch `of_patch` begins in the output.
struct PatchPlace {
  int64_t image, y, x;
};
HWY_INLINE PatchPlace place_of(const IntegerProduct& p, size_t of_patch) {
  const int64_t across = (p.out_w + 1) / 2, down = (p.out_h + 1) / 2, patch = static_cast<int64_t>(of_patch);
  return {patch / (across * down), patch / across % down * 2, patch % across * 2};
}

/// The transformed patches of a block's rows.
void PatchRows(const IntegerProduct& p, const IntegerBlock& block) {
  const WideTag d;
  const hn::Rebind<int8_t, WideTag> db;
  const size_t lanes = hn::Lanes(d), channels = p.group_channels(), stride = stride_of_points(p);
  const auto zero_point = hn::Set(d, static_cast<int16_t>(p.input_zero_point));
  auto* to = reinterpret_cast<int16_t*>(block.scratch);
  for (size_t row = 0; row < block.rows; ++row, to += kPatchPoints * stride) {
    const PatchPlace place = place_of(p, block.first_row + row);
    const int8_t* pixels[kPatchPoints];
    for (int64_t i = 0; i < 16; ++i) {
      const int64_t y = place.y - p.pad_h + i / 4, x = place.x - p.pad_w + i % 4;
      const bool is_inside = y >= 0 && y < p.in_h && x >= 0 && x < p.in_w;
      const int8_t* const image = p.in + place.image * p.in_h * p.in_w * static_cast<int64_t>(p.channels);
      pixels[i] =
          is_inside ? image + static_cast<size_t>(y * p.in_w + x) * p.channels + block.group * channels : p.beside;
    }
    for (size_t c = 0; c < channels; c += lanes) {
      const size_t left = HWY_MIN(lanes, channels - c);
      const auto load = [&](size_t i) HWY_ATTR {
        const auto bytes = left == lanes ? hn::LoadU(db, pixels[i] + c) : hn::LoadN(db, pixels[i] + c, left);
        return hn::Sub(hn::PromoteTo(d, bytes), zero_point);
      };
      hn::Vec<WideTag> columns[kPatchPoints];  // of the patch transformed downwards
#pragma GCC unroll 4
      for (size_t x = 0; x < 4; ++x) {
        const auto first = load(x), second = load(4 + x), third = load(8 + x), fourth = load(12 + x);
        columns[x] = hn::Sub(first, third);
        columns[4 + x] = hn::Add(second, third);
        columns[8 + x] = hn::Sub(third, second);
        columns[12 + x] = hn::Sub(second, fourth);
      }
#pragma GCC unroll 4
      for (size_t y = 0; y < 4; ++y) {
        const auto* const of = columns + 4 * y;
        int16_t* const at = to + 4 * y * stride + c;
        hn::StoreU(hn::Sub(of[0], of[2]), d, at);
        hn::StoreU(hn::Add(of[1], of[2]), d, at + stride);
        hn::StoreU(hn::Sub(of[2], of[1]), d, at + 2 * stride);
        hn::StoreU(hn::Sub(of[1], of[3]), d, at + 3 * stride);
      }
    }
  }
}

/// Results of 2x2 from the products of a patch and a vector of columns, `step` numbers from a point to the next.
HWY_INLINE void sum_points(const int32_t* products, size_t step, hn::Vec<SumTag>* HWY_RESTRICT results) {
  const SumTag d;
  hn::Vec<SumTag> upper[4], lower[4];
#pragma GCC unroll 4
  for (size_t x = 0; x < 4; ++x) {
    const auto at = [&](size_t y) HWY_ATTR { return hn::LoadU(d, products + (4 * y + x) * step); };
    const auto second = at(1), third = at(2);
    upper[x] = hn::Add(hn::Add(at(0), second), third);
    lower[x] = hn::Sub(hn::Sub(second, third), at(3));
  }
  results[0] = hn::Add(hn::Add(upper[0], upper[1]), upper[2]);
  results[1] = hn::Sub(hn::Sub(upper[1], upper[2]), upper[3]);
  results[2] = hn::Add(hn::Add(lower[0], lower[1]), lower[2]);
  results[3] = hn::Sub(hn::Sub(lower[1], lower[2]), lower[3]);
}

/// kRows patches times kVectors vectors of columns from `column` on, of which the last `left` count.
template <size_t kRows, size_t kVectors>
HWY_INLINE void multiply_tile(const IntegerProduct& p, const IntegerBlock& block, size_t row, const int16_t* weights,
                              size_t column, size_t first, size_t left) {
  const SumTag d;
  const size_t lanes = hn::Lanes(d), stride = stride_of_points(p), pairs = p.group_pairs();
  constexpr size_t kSums = kRows * kVectors;
  HWY_ALIGN int32_t products[kPatchPoints * kSums * hn::MaxLanes(d)];
  const int16_t* const patches = reinterpret_cast<const int16_t*>(block.scratch) + row * kPatchPoints * stride;
  for (size_t point = 0; point < kPatchPoints; ++point, weights += pairs * 2 * kVectors * lanes) {
    hn::Vec<SumTag> sums[kSums];
#pragma GCC unroll 16
    for (size_t i = 0; i < kSums; ++i) {
      sums[i] = hn::Zero(d);
    }
    add_pairs<kRows, kVectors>(patches + point * stride, kPatchPoints * stride, pairs, weights, sums);
#pragma GCC unroll 16
    for (size_t i = 0; i < kSums; ++i) {
      hn::StoreU(sums[i], d, products + (point * kSums + i) * lanes);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    const PatchPlace place = place_of(p, block.first_row + row + r);
    const int64_t corner = (place.image * p.out_h + place.y) * p.out_w + place.x;
    for (size_t v = 0; v < kVectors; ++v) {
      hn::Vec<SumTag> results[4];
      sum_points(products + (r * kVectors + v) * lanes, kSums * lanes, results);
      const auto bias = hn::LoadU(d, p.biases + column + v * lanes);
      for (int64_t i = 0; i < 4; ++i) {
        if (place.y + i / 2 >= p.out_h || place.x + i % 2 >= p.out_w) {
          continue;
        }
        const auto sum = hn::Add(hn::ShiftRight<2>(results[i]), bias);
        put_tile<1, 1>(p, static_cast<size_t>(corner + i / 2 * p.out_w + i % 2), column + v * lanes, first + v * lanes,
                       v + 1 < kVectors ? lanes : left, &sum);
      }
    }
  }
}

template <size_t kVectors>
void multiply_panel(const IntegerProduct& p, const IntegerBlock& block, const int16_t* weights, size_t column,
                    size_t first, size_t left) {
  for_even_tiles<kPairTileRows>(block.rows, [&](auto height, size_t row) HWY_ATTR {
    multiply_tile<decltype(height)::value, kVectors>(p, block, row, weights, column, first, left);
  });
}

/// Panels [begin, end) of a block's group.
void PatchPanels(const IntegerProduct& p, const IntegerBlock& block) {
  const size_t depth = kPatchPoints * 2 * p.group_pairs();
  for_panels(p, block, [&](auto vectors, size_t column, size_t first, size_t left) HWY_ATTR {
    multiply_panel<decltype(vectors)::value>(p, block, reinterpret_cast<const int16_t*>(p.packed) + column * depth,
                                             column, block.group * p.columns + first, left);
  });
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(PatchPanels);
HWY_EXPORT(PatchRows);

size_t patch_row_nbytes(const IntegerProduct& p) { return kPatchPoints * stride_of_points(p) * sizeof(int16_t); }
void make_patch_rows(const IntegerProduct& p, const IntegerBlock& block) { HWY_DYNAMIC_DISPATCH(PatchRows)(p, block); }
void multiply_patches(const IntegerProduct& p, const IntegerBlock& block) {
  HWY_DYNAMIC_DISPATCH(PatchPanels)(p, block);
}

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
