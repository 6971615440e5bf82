// Weights in chains (quantized/quad_chains.h): each quad once, in a form of its place, and no sum of a chain beyond 16
// bits, whatever bytes it meets.

#include "kernels/optimized/quantized/quad_chains.h"

#include <cstring>
#include <random>
#include <vector>

#include "instruction_sets.h"
#include "kernels/optimized/quantized/integer_loops.h"

namespace et::kernels::testing {
namespace {

using namespace optimized::quantized;

/// The largest and the least sum of products with bytes, of 16-bit lane `pair` of a quad.
struct Reach {
  int high = 0, low = 0;
  void add(const int8_t* two) {
    for (int i = 0; i < 2; ++i) {
      (two[i] > 0 ? high : low) += 255 * two[i];
    }
  }
};

/// Returns how many quads are in chains.
size_t expect_sound(const std::vector<int8_t>& weights, size_t quads) {
  const size_t lanes = integer_lanes(), of_quad = 4 * lanes;
  std::vector<char> scratch(chain_scratch_nbytes(quads)), packed(chain_nbytes(quads, lanes));
  arrange_chains(weights.data(), quads, scratch.data(), packed.data());
  ChainHeader header;
  std::memcpy(&header, packed.data(), sizeof(header));
  const auto* const places = reinterpret_cast<const uint16_t*>(packed.data() + chain_places_offset());
  const auto* const at = reinterpret_cast<const int8_t*>(packed.data() + chain_weights_offset(quads));
  std::vector<bool> seen(quads, false);
  size_t next = 0, in_chains = 0;
  for (size_t length = kLongestChain + 1; length-- > 0;) {
    for (size_t chain = 0; chain < header.chains[length]; ++chain) {
      std::vector<Reach> reach(2 * lanes);
      for (size_t i = 0; i < std::max<size_t>(length, 1); ++i, ++next) {
        const size_t quad = places[next] / kForms, form = places[next] % kForms;
        EXPECT_LT(quad, quads);
        EXPECT_FALSE(seen[quad]) << quad;
        seen[quad] = true;
        for (size_t b = 0; b < of_quad; ++b) {
          EXPECT_EQ(at[next * of_quad + b], weights[quad * of_quad + b / 4 * 4 + kFormOrder[form][b % 4]]);
        }
        for (size_t pair = 0; pair < reach.size(); ++pair) {
          reach[pair].add(at + next * of_quad + 2 * pair);
        }
      }
      for (const Reach& r : reach) {
        EXPECT_TRUE(length == 0 || (r.high <= INT16_MAX && r.low >= INT16_MIN)) << r.low << " to " << r.high;
      }
      in_chains += length;
    }
  }
  std::vector<int32_t> sums(lanes, 0);
  for (size_t b = 0; b < weights.size(); ++b) {
    sums[b % of_quad / 4] += weights[b];
    EXPECT_TRUE(seen[b / of_quad] || weights[b] == 0) << "quad " << b / of_quad << " is not there";
  }
  for (size_t lane = 0; lane < lanes; ++lane) {
    EXPECT_EQ(header.sums[lane], sums[lane]);
  }
  return in_chains;
}

TEST(QuadChains, EachQuadOnceAndNoSumBeyond16Bits) {
  for_each_instruction_set([] {
    std::mt19937 random(5);
    for (const size_t quads : {1, 2, 5, 96, 255, 256, 257, 700}) {
      for (const int most : {1, 8, 20, 43, 64, 90, 128}) {
        std::vector<int8_t> weights(quads * 4 * integer_lanes());
        for (int8_t& weight : weights) {
          const int drawn = static_cast<int>(random() % (2 * static_cast<unsigned>(most) + 1)) - most;
          weight = static_cast<int8_t>(std::min(drawn, 127));
        }
        const size_t in_chains = expect_sound(weights, quads);
        if (most <= 64 && HWY_ARCH_X86) {
          EXPECT_EQ(in_chains, quads);
        }
      }
    }
  });
}

TEST(QuadChains, Extremes) {
  for_each_instruction_set([] {
    const size_t lanes = integer_lanes();
    expect_sound(std::vector<int8_t>(64 * 4 * lanes, -128), 64);
    expect_sound(std::vector<int8_t>(64 * 4 * lanes, 127), 64);
    expect_sound(std::vector<int8_t>(64 * 4 * lanes, 0), 64);
    std::vector<int8_t> opposite(64 * 4 * lanes);  // pairs of opposite signs never leave 16 bits
    for (size_t i = 0; i < opposite.size(); ++i) {
      opposite[i] = static_cast<int8_t>(i % 2 == 0 ? 127 : -128);
    }
    EXPECT_EQ(expect_sound(opposite, 64), HWY_ARCH_X86 ? 64U : 0U);
  });
}

}  // namespace
}  // namespace et::kernels::testing
