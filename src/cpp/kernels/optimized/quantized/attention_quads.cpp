#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "kernels/optimized/quantized/attention_quads.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <cstring>

#include "base/rounding.h"
#include "kernels/optimized/attention/online_softmax-inl.h"
#include "kernels/optimized/quantized/quad_sums-inl.h"
#include "kernels/optimized/vec/even_tiles-inl.h"
#include "kernels/optimized/vec/transpose4-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace attention::HWY_NAMESPACE;  // NOLINT: and of vec
using attention::kKeyBlock;
using attention::kScoreStride;
using kernels::quantized::Requantizer;

using SumsTag = hn::ScalableTag<int32_t>;
using FloatTag = hn::ScalableTag<float>;

/// A row of results, x * factor + offset in units of the output's scale, as its integers.
void ToBytes(const float* x, size_t n, float factor, float offset, const Requantizer& result, char* to) {
  const FloatTag d;
  const hn::Rebind<int32_t, FloatTag> di;
  const hn::Rebind<int8_t, FloatTag> bytes;
  const auto times = hn::Set(d, factor), more = hn::Set(d, offset);
  const auto low = hn::Set(d, static_cast<float>(result.min() - result.zero_point()));
  const auto high = hn::Set(d, static_cast<float>(result.max() - result.zero_point()));
  const auto zero = hn::Set(di, result.zero_point());
  over_vectors(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto units = hn::MulAdd(load(d, whole, x + i, left), times, more);
    const auto bounded = hn::Min(hn::IfThenElse(hn::Gt(units, low), units, low), high);  // NaN is the least one
    const auto integers = hn::Add(hn::NearestInt(bounded), zero);
    store(bytes, whole, narrow(bytes, integers), reinterpret_cast<int8_t*>(to) + i, left);
  });
}

#if HWY_ARCH_X86 && (HWY_TARGET <= HWY_AVX3_DL || HWY_TARGET == HWY_AVX2)

using BytesTag = hn::Repartition<int8_t, SumsTag>;

/// Byte rows of a tile of two vectors of columns: the sums and operands fill the registers.
constexpr size_t kScoreRows = hn::MaxLanes(SumsTag()) >= 16 ? 8 : 6;
constexpr size_t kValueRows = hn::MaxLanes(SumsTag()) >= 16 ? 6 : 3;  // of two bytes each

/// Panel `panel` of the keys at `from`, and the term of each.
HWY_INLINE void pack_keys(const PackedHeads& h, const char* from, size_t panel, int8_t* to, int32_t* terms) {
  const size_t columns = h.columns, first = panel * columns, count = HWY_MIN(columns, h.keys - first);
  const size_t depth = h.depth, words = h.padded_depth() / 4;
  const size_t whole_keys = count / 4 * 4, whole_words = depth / 16 * 4;
  const char* const keys = from + first * depth;
  for (size_t j = 0; j < whole_keys; j += 4) {
    for (size_t w = 0; w < whole_words; w += 4) {
      transpose4(keys + j * depth + 4 * w, reinterpret_cast<char*>(to + 4 * (w * columns + j)),
                 static_cast<int64_t>(depth), static_cast<int64_t>(4 * columns));
    }
  }
  for (size_t w = 0; w < words; ++w) {
    for (size_t j = w < whole_words ? whole_keys : 0; j < columns; ++j) {
      char word[4] = {};
      if (j < count && 4 * w < depth) {
        std::memcpy(word, keys + j * depth + 4 * w, HWY_MIN(4, depth - 4 * w));
      }
      std::memcpy(to + 4 * (w * columns + j), word, 4);
    }
  }
  const SumsTag d;
  const BytesTag db;
  const hn::RebindToUnsigned<BytesTag> du;
  const size_t lanes = hn::Lanes(d);
  const auto flip = hn::Set(db, static_cast<int8_t>(h.flip_signed));
  for (size_t v = 0; v < 2; ++v) {
    auto sum = hn::Zero(d);
    for (size_t w = 0; w < words; ++w) {
      int8_t* const at = to + 4 * (w * columns + v * lanes);
      const auto numbers = hn::Xor(hn::LoadU(db, at), flip);
      hn::StoreU(numbers, db, at);
      sum = add_quads<kMayHaveAvxVnni>(sum, hn::Set(du, uint8_t{1}), numbers);
    }
    hn::StoreU(hn::Mul(sum, hn::Set(d, -h.query_zero_point)), d, terms + v * lanes);
  }
}

/// Values of keys [first, first + count) at `from`, for products of `padded` of them.
HWY_INLINE void pack_values(const PackedHeads& h, const char* from, size_t count, size_t padded, int8_t* to) {
  const hn::CappedTag<int8_t, 2 * hn::MaxLanes(SumsTag())> d;  // the columns of a panel
  const auto flip = hn::Set(d, static_cast<int8_t>(h.flip_signed));
  const size_t lanes = hn::Lanes(d);
  const auto* const values = reinterpret_cast<const int8_t*>(from);
  for (size_t first = 0; first < h.value_depth; first += h.columns) {
    for (size_t k = 0; k < padded; k += 4, to += 4 * h.columns) {
      for (size_t c = 0; c < h.columns; c += lanes) {
        const size_t column = first + c, left = column < h.value_depth ? h.value_depth - column : 0;
        const auto row = [&](size_t i) HWY_ATTR {
          const int8_t* const at = values + (k + i) * h.value_depth + column;
          return k + i >= count || left == 0 ? hn::Zero(d)
                                             : hn::Xor(left >= lanes ? hn::LoadU(d, at) : hn::LoadN(d, at, left), flip);
        };
        hn::StoreInterleaved4(row(0), row(1), row(2), row(3), d, to + 4 * c);
      }
    }
  }
}

/// Heads [begin, end) of the keys and values.
void PackHeads(const PackedHeads& h, size_t begin, size_t end) {
  for (size_t head = begin; head < end; ++head) {
    const size_t panels = h.padded_keys() / h.columns;
    for (size_t panel = 0; panel < panels; ++panel) {
      pack_keys(h, h.key + head * h.keys * h.depth, panel,
                h.packed_keys + head * h.key_nbytes() + panel * h.columns * h.padded_depth(),
                h.key_terms + head * h.padded_keys() + panel * h.columns);
    }
    for (size_t first = 0; first < h.keys; first += kKeyBlock) {
      const size_t count = HWY_MIN(kKeyBlock, h.keys - first);
      pack_values(h, h.value + (head * h.keys + first) * h.value_depth, count, round_up(count, h.unit),
                  h.packed_values + head * h.value_nbytes() + first * h.padded_columns());
    }
  }
}

/// sums[2 r + v] += kRows rows of bytes times the two vectors of a panel's columns.
template <size_t kRows>
HWY_INLINE void multiply_panel(const uint8_t* rows, size_t stride, const int8_t* panel, size_t quads,
                               hn::Vec<SumsTag> (&sums)[2 * kRows]) {
  const SumsTag d;
  const BytesTag db;
  const size_t vector = 4 * hn::Lanes(d);
  for (size_t quad = 0; quad < quads; ++quad, panel += 2 * vector) {
    const auto left = hn::LoadU(db, panel), right = hn::LoadU(db, panel + vector);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      int32_t four;
      std::memcpy(&four, rows + r * stride + 4 * quad, sizeof(four));
      const auto bytes = hn::BitCast(hn::RebindToUnsigned<BytesTag>(), hn::Set(d, four));
      sums[2 * r] = add_quads<kMayHaveAvxVnni>(sums[2 * r], bytes, left);
      sums[2 * r + 1] = add_quads<kMayHaveAvxVnni>(sums[2 * r + 1], bytes, right);
    }
  }
}

/// `products(r, v)` of kRows rows, whose terms are in them, as scores.
template <size_t kRows, class Products>
HWY_INLINE void put_scores(const Products& products, float* scores) {
  const FloatTag d;
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    hn::StoreU(hn::ConvertTo(d, products(r, 0)), d, scores + r * kScoreStride);
    hn::StoreU(hn::ConvertTo(d, products(r, 1)), d, scores + r * kScoreStride + hn::Lanes(d));
  }
}

/// to[r] = to[r] * factor[r] + 256 * high + low, for kRows rows of two bytes.
template <size_t kRows, class Products>
HWY_INLINE void put_values(const Products& products, const float* factor, float* to, size_t stride) {
  const FloatTag d;
  const auto of_high = hn::Set(d, 256.0f);
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const auto times = hn::Set(d, factor[r]);
#pragma GCC unroll 2
    for (size_t v = 0; v < 2; ++v) {
      float* const at = to + r * stride + v * hn::Lanes(d);
      const auto sum =
          hn::MulAdd(hn::ConvertTo(d, products(2 * r, v)), of_high, hn::ConvertTo(d, products(2 * r + 1, v)));
      hn::StoreU(hn::MulAdd(hn::LoadU(d, at), times, sum), d, at);
    }
  }
}

/// Scores of `count` rows and a panel of keys.
HWY_INLINE void score_panel(const uint8_t* rows, size_t depth, size_t count, const int8_t* panel, const int32_t* terms,
                            float* scores) {
  const SumsTag d;
  for_even_tiles<kScoreRows>(count, [&](auto height, size_t r) HWY_ATTR {
    constexpr size_t kRows = decltype(height)::value;
    hn::Vec<SumsTag> sums[2 * kRows];
#pragma GCC unroll 16
    for (size_t i = 0; i < 2 * kRows; ++i) {
      sums[i] = hn::LoadU(d, terms + i % 2 * hn::Lanes(d));
    }
    multiply_panel<kRows>(rows + r * depth, depth, panel, depth / 4, sums);
    put_scores<kRows>([&](size_t row, size_t v) HWY_ATTR { return sums[2 * row + v]; }, scores + r * kScoreStride);
  });
}

/// Adds a panel of `padded` values, weighted, to the sums of `count` rows.
HWY_INLINE void add_panel(const uint8_t* weights, size_t count, const int8_t* panel, size_t padded, const float* factor,
                          float* to, size_t stride) {
  for_even_tiles<kValueRows>(count, [&](auto height, size_t r) HWY_ATTR {
    constexpr size_t kRows = decltype(height)::value;
    hn::Vec<SumsTag> sums[4 * kRows];
#pragma GCC unroll 32
    for (size_t i = 0; i < 4 * kRows; ++i) {
      sums[i] = hn::Zero(SumsTag());
    }
    multiply_panel<2 * kRows>(weights + 2 * r * kKeyBlock, kKeyBlock, panel, padded / 4, sums);
    put_values<kRows>([&](size_t row, size_t v) HWY_ATTR { return sums[2 * row + v]; }, factor + r, to + r * stride,
                      stride);
  });
}

#if HWY_TARGET <= HWY_AVX3_DL

/// The same by tiles. They have kRowBlock rows always: what stands behind `count` is not read.
HWY_INLINE void score_panel_by_tiles(const uint8_t* rows, size_t depth, size_t count, const int8_t* panel,
                                     const int32_t* terms, float* scores) {
  const SumsTag d;
  alignas(64) amx::QuadSums sums;
  amx::multiply_quad_tiles({rows, depth, kRowBlock, 1, 0, 1, 0, depth / (4 * amx::kTileQuads), panel, true, panel, 0},
                           0, sums);
  for (size_t r = 0; r < count; ++r) {
    const auto product = [&](size_t, size_t v) HWY_ATTR {
      return hn::Add(hn::LoadU(d, &sums[r][v * hn::Lanes(d)]), hn::LoadU(d, terms + v * hn::Lanes(d)));
    };
    put_scores<1>(product, scores + r * kScoreStride);
  }
}

HWY_INLINE void add_panel_by_tiles(const uint8_t* weights, size_t count, const int8_t* panel, size_t padded,
                                   const float* factor, float* to, size_t stride) {
  const SumsTag d;
  alignas(64) amx::QuadSums sums;
  constexpr size_t kRows = kRowBlock / 2;  // of two bytes
  for (size_t first = 0; first < count; first += kRows) {
    amx::multiply_quad_tiles({weights + 2 * first * kKeyBlock, kKeyBlock, kRowBlock, 1, 0, 1, 0,
                              padded / (4 * amx::kTileQuads), panel, true, panel, 0},
                             0, sums);
    for (size_t r = first; r < HWY_MIN(first + kRows, count); ++r) {
      const auto product = [&](size_t byte, size_t v)
                               HWY_ATTR { return hn::LoadU(d, &sums[2 * (r - first) + byte][v * hn::Lanes(d)]); };
      put_values<1>(product, factor + r, to + r * stride, stride);
    }
  }
}

#endif

/// What a weight of one is; what rounding leaves may add half.
constexpr float kWholeWeight = 65534;
/// Of 2^r, |r| <= 1/2, times kWholeWeight: a minimax polynomial, 2.6e-6 at most from it in relation to it.
constexpr float kPowerOfTwo[] = {0.99999928f * kWholeWeight, 0.69312179f * kWholeWeight, 0.24024744f * kWholeWeight,
                                 0.05591786f * kWholeWeight, 0.00957010f * kWholeWeight};

/// e^(scale * (score - maximum)) of n scores as 16 bits of kWholeWeight in two rows of bytes; zeros follow up to
/// `padded`. What rounding leaves goes to the lane's next key, so that many small weights do not vanish; a weight of 0
/// stays 0. Returns their sum.
HWY_INLINE float weigh_bytes(const float* x, size_t n, float maximum, float scale, size_t padded, uint8_t* to) {
  const FloatTag d;
  const hn::Rebind<uint8_t, FloatTag> bytes;
  const auto less = hn::Set(d, maximum), times = hn::Set(d, scale * 1.44269504f);
  const auto rounding = hn::Set(d, 12582912.0f + 127.0f);  // as exp_below_one() has it
  auto sum = hn::Zero(d);
  // Lanes begin apart, so that equal weights do not round alike: from -1/2 to 1/2.
  const float lanes = static_cast<float>(hn::Lanes(d));
  auto left_over = hn::MulAdd(hn::Iota(d, 0.5f), hn::Set(d, 1 / lanes), hn::Set(d, -0.5f));
  uint8_t *const high = to, *const low = to + kKeyBlock;
  over_vectors(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
    const auto exponent = at_least(d, hn::Mul(hn::Sub(load(d, whole, x + i, left), less), times), -126.0f);
    const auto shifted = hn::Add(exponent, rounding);
    auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(SumsTag(), shifted)));
    if constexpr (!decltype(whole)::value) {
      power = hn::IfThenElseZero(hn::FirstN(d, left), power);
    }
    const auto rest = hn::Sub(exponent, hn::Sub(shifted, rounding));
    const auto exact = hn::MulAdd(power, polynomial(d, rest, kPowerOfTwo), left_over);
    const auto weight = hn::Round(exact);
    left_over = hn::Sub(exact, weight);
    sum = hn::Add(sum, weight);  // NaN stays
    const auto integers = hn::ConvertTo(SumsTag(), weight);
    store(bytes, whole, narrow(bytes, hn::ShiftRight<8>(integers)), high + i, left);
    store(bytes, whole, narrow(bytes, integers), low + i, left);
  });
  std::memset(high + n, 0, padded - n);
  std::memset(low + n, 0, padded - n);
  return hn::ReduceSum(d, sum);
}

void Attend(const QuantizedTask& task) {
  const PackedHeads& h = *task.heads;
  const size_t depth = h.padded_depth(), stride = h.padded_columns();
#if HWY_TARGET <= HWY_AVX3_DL
  const bool by_tiles = h.unit > 4;
  if (by_tiles) {
    amx::configure_quad_tiles(kRowBlock);
  }
#endif
  start_rows(task);
  std::memset(task.sums, 0, task.count * stride * sizeof(float));
  for (size_t r = 0; r < task.count; ++r) {
    uint8_t* const to = task.rows + r * depth;
    copy_flipped(to, task.query + r * h.depth, h.depth, task.flip_unsigned);
    std::memset(to + h.depth, 0, depth - h.depth);
  }
  const size_t keys = task.visible_keys();
  for (size_t first = 0; first < keys; first += kKeyBlock) {
    const size_t count = HWY_MIN(kKeyBlock, keys - first);
    // Values of a whole block were packed, of which a causal task may see fewer.
    const size_t padded = round_up(HWY_MIN(kKeyBlock, h.keys - first), h.unit);
    for (size_t row = 0; row < task.count; row += kRowBlock) {
      const size_t rows = HWY_MIN(kRowBlock, task.count - row);
      if (task.causal && task.first + row + rows <= first) {
        continue;  // they see none of these keys
      }
      const uint8_t* const of_rows = task.rows + row * depth;
      for (size_t key = 0; key < count; key += h.columns) {
        const int8_t* const panel = task.packed_keys + (first + key) * depth;
        const int32_t* const terms = task.key_terms + first + key;
#if HWY_TARGET <= HWY_AVX3_DL
        if (by_tiles) {
          score_panel_by_tiles(of_rows, depth, rows, panel, terms, task.scores + key);
          continue;
        }
#endif
        score_panel(of_rows, depth, rows, panel, terms, task.scores + key);
      }
      float factor[kRowBlock];
      for (size_t r = 0; r < rows; ++r) {
        uint8_t* const bytes = task.weights + 2 * r * kKeyBlock;
        const auto powers = [&](const float* x, size_t n, float maximum, float scale)
                                HWY_ATTR { return weigh_bytes(x, n, maximum, scale, padded, bytes); };
        factor[r] = weigh_row(task, task.scores + r * kScoreStride, row + r, first, count, powers);
      }
      const int8_t* panel = task.packed_values + first * stride;
      for (size_t column = 0; column < stride; column += h.columns, panel += padded * h.columns) {
        float* const to = task.sums + row * stride + column;
#if HWY_TARGET <= HWY_AVX3_DL
        if (by_tiles) {
          add_panel_by_tiles(task.weights, rows, panel, padded, factor, to, stride);
          continue;
        }
#endif
        add_panel(task.weights, rows, panel, padded, factor, to, stride);
      }
    }
  }
#if HWY_TARGET <= HWY_AVX3_DL
  if (by_tiles) {
    amx::release_quad_tiles();
  }
#endif
  const float units = task.values.scale / task.requantizer->scale();
  for (size_t r = 0; r < task.count; ++r) {
    // A row that may look at nothing gives 0, as eager PyTorch does.
    const float sum = task.sum[r];
    ToBytes(task.sums + r * stride, h.value_depth, sum == 0 ? 0 : units / sum,
            sum == 0 ? 0 : -units * static_cast<float>(task.values.zero_point), *task.requantizer,
            task.out + r * h.value_depth);
  }
}

#else

void PackHeads(const PackedHeads&, size_t, size_t) {}
void Attend(const QuantizedTask&) {}

#endif

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(Attend);
HWY_EXPORT(PackHeads);
HWY_EXPORT(ToBytes);

void pack_heads(const PackedHeads& heads, size_t begin, size_t end) {
  HWY_DYNAMIC_DISPATCH(PackHeads)(heads, begin, end);
}
void attend_rows(const QuantizedTask& task) { HWY_DYNAMIC_DISPATCH(Attend)(task); }
void to_bytes(const float* x, size_t n, float factor, float offset, const kernels::quantized::Requantizer& result,
              char* to) {
  HWY_DYNAMIC_DISPATCH(ToBytes)(x, n, factor, offset, result, to);
}

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
