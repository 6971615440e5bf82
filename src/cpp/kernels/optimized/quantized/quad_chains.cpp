#include "kernels/optimized/quantized/quad_chains.h"

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstring>

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_CHAINS_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_QUAD_CHAINS_ONCE
namespace et::kernels::optimized::quantized {

/// Quads that chains are made of, so that what a chain meets of a row stands in the first cache.
constexpr size_t kWindow = 256;
/// Light quads that a chain tries.
constexpr size_t kTries = 12;

struct ChainScratch {
  int16_t high[kWindow][32], low[kWindow][32];  // sums of the positive and of the negative weights of each pair
  uint8_t form[kWindow], heaviness[kWindow];
  size_t quads, count[kLongestChain + 1];
  uint16_t places[1];  // [kLongestChain + 1][quads]

  void add(size_t length, const uint16_t* members) {
    uint16_t* const to = places + length * quads + count[length] * std::max<size_t>(length, 1);
    std::copy_n(members, std::max<size_t>(length, 1), to);
    ++count[length];
  }
};

}  // namespace et::kernels::optimized::quantized
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using SumTag = hn::ScalableTag<int32_t>;
using PairTag = hn::Repartition<int16_t, SumTag>;
using ByteTag = hn::Repartition<int8_t, SumTag>;

/// Without `pmaddubsw` all quads are multiplied in 16 bits.
constexpr int kMostSum = HWY_ARCH_X86 ? 128 : 0;

HWY_INLINE hn::Vec<ByteTag> in_form(const int8_t* quad, size_t form) {
  alignas(16) int8_t order[16];
  for (size_t i = 0; i < 16; ++i) {
    order[i] = static_cast<int8_t>(i / 4 * 4 + kFormOrder[form][i % 4]);
  }
  return hn::TableLookupBytes(hn::LoadU(ByteTag(), quad), hn::LoadDup128(ByteTag(), order));
}

/// Gives a quad of the window its form and its sums.
HWY_INLINE void weigh(const int8_t* quad, size_t i, ChainScratch* s) {
  const PairTag d;
  const auto ones = hn::Set(hn::RebindToUnsigned<ByteTag>(), uint8_t{1});
  const auto zero = hn::Zero(ByteTag());
  int lightest = kMostSum + 1;
  for (size_t form = 0; form < kForms; ++form) {
    const auto weights = in_form(quad, form);
    const auto high = hn::SatWidenMulPairwiseAdd(d, ones, hn::Max(weights, zero));
    const auto low = hn::SatWidenMulPairwiseAdd(d, ones, hn::Min(weights, zero));
    const int heaviness = hn::ReduceMax(d, hn::Max(high, hn::Neg(low)));
    if (heaviness < lightest) {
      lightest = heaviness;
      s->form[i] = static_cast<uint8_t>(form);
      hn::StoreU(high, d, s->high[i]);
      hn::StoreU(low, d, s->low[i]);
    }
  }
  s->heaviness[i] = static_cast<uint8_t>(lightest);  // kMostSum + 1: it fits in no form
}

/// The chains of quads [first, first + count).
HWY_INLINE void arrange_window(const int8_t* weights, size_t first, size_t count, ChainScratch* s) {
  const PairTag d;
  const auto most = hn::Set(d, kMostSum), least = hn::Set(d, -kMostSum);
  const auto place = [&](size_t i) { return static_cast<uint16_t>((first + i) * kForms + s->form[i]); };
  size_t of_heaviness[kMostSum + 2] = {};
  for (size_t i = 0; i < count; ++i) {
    weigh(weights + (first + i) * 4 * hn::Lanes(SumTag()), i, s);
    ++of_heaviness[s->heaviness[i]];
  }
  uint8_t order[kWindow];  // heaviest first
  size_t start[kMostSum + 2];
  for (size_t h = kMostSum + 2, at = 0; h-- > 0; at += of_heaviness[h]) {
    start[h] = at;
  }
  for (size_t i = 0; i < count; ++i) {
    order[start[s->heaviness[i]]++] = static_cast<uint8_t>(i);
  }
  size_t next = of_heaviness[kMostSum + 1], end = count - of_heaviness[0];  // zeros multiply nothing
  for (size_t i = 0; i < next; ++i) {
    s->form[order[i]] = 0;
    const uint16_t alone = place(order[i]);
    s->add(0, &alone);
  }
  while (next < end) {
    const size_t heavy = order[next++];
    uint16_t members[kLongestChain] = {place(heavy)};
    size_t length = 1;
    auto high = hn::LoadU(d, s->high[heavy]), low = hn::LoadU(d, s->low[heavy]);
    for (size_t t = std::max(next, end - std::min(end, kTries)); t < end && length < kLongestChain;) {
      const auto new_high = hn::Add(high, hn::LoadU(d, s->high[order[t]]));
      const auto new_low = hn::Add(low, hn::LoadU(d, s->low[order[t]]));
      if (!hn::AllTrue(d, hn::And(hn::Le(new_high, most), hn::Ge(new_low, least)))) {
        ++t;
        continue;
      }
      high = new_high, low = new_low;
      members[length++] = place(order[t]);
      std::copy(order + t + 1, order + end, order + t);
      --end;
    }
    s->add(length, members);
  }
}

void ArrangeChains(const int8_t* weights, size_t quads, ChainScratch* s, char* to) {
  const SumTag d;
  const size_t lanes = hn::Lanes(SumTag());
  s->quads = quads;
  std::fill_n(s->count, kLongestChain + 1, 0);
  for (size_t first = 0; first < quads; first += kWindow) {
    arrange_window(weights, first, HWY_MIN(kWindow, quads - first), s);
  }
  ChainHeader header{};
  auto* const places = reinterpret_cast<uint16_t*>(to + chain_places_offset());
  size_t at = 0;
  for (size_t length = kLongestChain + 1; length-- > 0;) {
    header.chains[length] = static_cast<uint32_t>(s->count[length]);
    const size_t members = s->count[length] * HWY_MAX(length, 1);
    std::copy_n(s->places + length * quads, members, places + at);
    at += members;
  }
  auto* const packed = reinterpret_cast<int8_t*>(to + chain_weights_offset(quads));
  auto sums = hn::Zero(d);
  for (size_t i = 0; i < at; ++i) {
    const auto quad = in_form(weights + places[i] / kForms * 4 * lanes, places[i] % kForms);
    hn::StoreU(quad, ByteTag(), packed + i * 4 * lanes);
    const auto pairs =
        hn::SatWidenMulPairwiseAdd(PairTag(), hn::Set(hn::RebindToUnsigned<ByteTag>(), uint8_t{1}), quad);
    sums = hn::Add(sums, hn::WidenMulPairwiseAdd(d, pairs, hn::Set(PairTag(), int16_t{1})));
  }
  hn::StoreU(sums, d, header.sums);
  std::memcpy(to, &header, sizeof(header));
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(ArrangeChains);

size_t chain_scratch_nbytes(size_t quads) {
  return sizeof(ChainScratch) + (kLongestChain + 1) * quads * sizeof(uint16_t);
}

void arrange_chains(const int8_t* weights, size_t quads, void* scratch, void* to) {
  HWY_DYNAMIC_DISPATCH(ArrangeChains)
  (weights, quads, static_cast<ChainScratch*>(scratch), static_cast<char*>(to));
}

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
