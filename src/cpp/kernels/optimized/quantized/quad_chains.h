/// Constant int8 weights in an order in which few instructions multiply them by unsigned bytes, with exact sums.
///
/// For: integer_product.cpp and chain_loop.cpp. Not for: processors with an instruction for four bytes into 32 bits
/// (VNNI), which need no order.
///
/// Four numbers of the depth are a *quad*. One instruction (`pmaddubsw`) multiplies quads of a vector of columns by a
/// quad of a row, and adds pairs of products in 16 bits. Such a sum is exact where neither the positive nor the
/// negative weights of the pair add up to more than kMostSum, whatever the row holds: 255 * 128 < 2^15. So are sums of
/// several quads whose weights stay in that bound together. Such quads are a *chain*: their sums are added in 16 bits,
/// and widened to 32 once. The order of the depth is free, and so is what a pair is. Each quad takes the form of kForms
/// that has the smallest sums, and then heavy quads join light ones. Quads that fit in no form are multiplied in 16
/// bits. Chains are made of the weights alone, when they are packed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/rounding.h"

namespace et::kernels::optimized::quantized {

/// One more would take a register too many of the sixteen that AVX2 has.
inline constexpr size_t kLongestChain = 3;
/// Orders of a quad's bytes, which differ in what stands side by side.
inline constexpr size_t kForms = 3;
inline constexpr uint8_t kFormOrder[kForms][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 3, 1, 2}};
/// Places of quads are 16 bits.
inline constexpr size_t kMostQuads = (size_t{1} << 16) / kForms;

/// Packed weights of a vector of columns begin with this. Behind it, at the places that the functions below give, stand
/// all chains of the longest length, then of shorter ones, then the quads of no chain.
struct ChainHeader {
  uint32_t chains[kLongestChain + 1];  ///< of each length; 0: quads of no chain
  int32_t sums[16];                    ///< of the weights of each column
};

constexpr size_t kChainAlignment = 64;
constexpr size_t aligned_to_chain(size_t nbytes) { return round_up(nbytes, kChainAlignment); }
/// Where each quad stands in a row: quad * kForms + form, u16 [quads].
constexpr size_t chain_places_offset() { return aligned_to_chain(sizeof(ChainHeader)); }
/// The weights, i8 [quads][columns][4], in the form of their place.
constexpr size_t chain_weights_offset(size_t quads) {
  return chain_places_offset() + aligned_to_chain(quads * sizeof(uint16_t));
}
constexpr size_t chain_nbytes(size_t quads, size_t lanes) {
  return chain_weights_offset(quads) + aligned_to_chain(quads * lanes * 4);
}

/// Bytes of memory, aligned as malloc does, that arrange_chains() works in.
size_t chain_scratch_nbytes(size_t quads);

/// Packs `weights`, i8 [quads][integer_lanes()][4], to chain_nbytes() bytes at `to`, whose rest the caller has cleared.
/// At most kMostQuads.
void arrange_chains(const int8_t* weights, size_t quads, void* scratch, void* to);

}  // namespace et::kernels::optimized::quantized
