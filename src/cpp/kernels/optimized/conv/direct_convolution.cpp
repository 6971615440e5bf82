#include "kernels/optimized/conv/direct_convolution.h"

#define ET_TARGETS_WITH_BFLOAT16
#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstring>

#include "base/rounding.h"
#include "kernels/optimized/amx/direct_tiles.h"
#include "kernels/optimized/amx/tiles.h"
#include "kernels/optimized/matmul/gemm_pairs.h"
#include "kernels/optimized/vec/float_runs.h"
#include "kernels/portable/convert.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_DIRECT_CONVOLUTION_ONCE
#define ET_KERNELS_OPTIMIZED_DIRECT_CONVOLUTION_ONCE
namespace et::kernels::optimized::conv {

/// Positions that are computed at a time; every tile's width divides it.
inline constexpr size_t kPositions = 384;

/// Sums of a block of output channels at kPositions positions. A slot is a float, or a pair of BFloat16 of two
/// channels.
struct DirectBlock {
  const uint32_t* image;    // the slots of the first position
  const uint32_t* weights;  // [steps, channels of the block]
  const int64_t* offsets;   // of each step, from a position's first slot
  size_t steps;
  const float* bias;  // of each channel
  float* sums;        // [channels, kPositions]
  size_t positions;   // that are wanted
};

/// The tiles of a target: channels, and a function for blocks of that many.
struct DirectTile {
  size_t channels;
  void (*multiply)(const DirectBlock& block);
};
struct DirectTiles {
  DirectTile tiles[4];  // the largest first, the last of one channel
};

}  // namespace et::kernels::optimized::conv
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::conv::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// R channels, V vectors of positions.
template <bool Pairs, size_t R, size_t V>
void multiply_direct(const DirectBlock& block) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const size_t lanes = hn::Lanes(d);
  for (size_t at = 0; at < block.positions; at += V * lanes) {
    hn::Vec<decltype(d)> sums[R][V];
#pragma GCC unroll 16
    for (size_t r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (size_t v = 0; v < V; ++v) {
        sums[r][v] = hn::Set(d, block.bias[r]);
      }
    }
    const uint32_t* const image = block.image + at;
    const uint32_t* weights = block.weights;
    for (size_t s = 0; s < block.steps; ++s, weights += R) {
      const uint32_t* const from = image + block.offsets[s];
      hn::Vec<decltype(du)> x[V];
#pragma GCC unroll 16
      for (size_t v = 0; v < V; ++v) {
        x[v] = hn::LoadU(du, from + v * lanes);
      }
#pragma GCC unroll 16
      for (size_t r = 0; r < R; ++r) {
        const auto w = hn::Set(du, weights[r]);
#pragma GCC unroll 16
        for (size_t v = 0; v < V; ++v) {
#if HWY_NATIVE_DOT_BF16
          if constexpr (Pairs) {
            const hn::Repartition<hwy::bfloat16_t, decltype(d)> dh;
            auto unused = hn::Zero(d);
            sums[r][v] =
                hn::ReorderWidenMulAccumulate(d, hn::BitCast(dh, w), hn::BitCast(dh, x[v]), sums[r][v], unused);
            continue;
          }
#endif
          sums[r][v] = hn::MulAdd(hn::BitCast(d, w), hn::BitCast(d, x[v]), sums[r][v]);
        }
      }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (size_t v = 0; v < V; ++v) {
        hn::StoreU(sums[r][v], d, block.sums + r * kPositions + at + v * lanes);
      }
    }
  }
}

// Sums and operands fill the 32 registers of AVX-512, or 16.
template <bool Pairs>
DirectTiles tiles_of_target() {
#if HWY_MAX_BYTES >= 64
  return {{{12, &multiply_direct<Pairs, 12, 2>},
           {8, &multiply_direct<Pairs, 8, 3>},
           {4, &multiply_direct<Pairs, 4, 6>},
           {1, &multiply_direct<Pairs, 1, 8>}}};
#else
  return {{{6, &multiply_direct<Pairs, 6, 2>},
           {4, &multiply_direct<Pairs, 4, 2>},
           {2, &multiply_direct<Pairs, 2, 4>},
           {1, &multiply_direct<Pairs, 1, 8>}}};
#endif
}

DirectTiles FloatTiles() { return tiles_of_target<false>(); }
DirectTiles PairTiles() { return tiles_of_target<HWY_NATIVE_DOT_BF16 != 0>(); }
bool HasPairs() { return HWY_NATIVE_DOT_BF16 != 0; }

}  // namespace et::kernels::optimized::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::conv {

HWY_EXPORT(FloatTiles);
HWY_EXPORT(PairTiles);
HWY_EXPORT(HasPairs);

namespace {

using Problem = ConvolutionProblem;

/// What all images and groups have in common.
struct Direct {
  const Problem* problem;
  bool pairs;           // slots are pairs of channels
  bool by_tiles;        // which some planes at a time meet
  int64_t planes;       // of slots in an image: channels, or half as many
  int64_t padded[3];    // sizes with the border
  int64_t plane_slots;  // of a plane, and as many as the last tile reads beyond
  int64_t positions;    // up to the last that is wanted
  DirectTile tile;
  size_t steps;
  size_t blocks;  // of output channels
};

/// Elements [begin, end) of a row as slots; `next` is the row of the next channel, nullptr: there is none.
void fill_slots(const Direct& direct, const char* row, const char* next, size_t begin, size_t end, uint32_t* line) {
  const ScalarType dtype = direct.problem->dtype;
  if (!direct.pairs) {
    floats_from(dtype, row + begin * element_size(dtype), 1, end - begin, reinterpret_cast<float*>(line + begin));
    return;
  }
  const auto* const from = reinterpret_cast<const BFloat16*>(row);
  auto* const to = reinterpret_cast<BFloat16*>(line);
  if (next != nullptr) {
    matmul::pack_pair(from + begin, reinterpret_cast<const BFloat16*>(next) + begin, end - begin, to + 2 * begin);
    return;
  }
  for (size_t i = begin; i < end; ++i) {
    to[2 * i] = from[i];
  }
}

/// The image of one group with its border, as slots.
void pad_image(KernelContext& context, const Direct& direct, const char* image, uint32_t* slots) {
  const Problem& p = *direct.problem;
  constexpr size_t kLook = 1 << 16;  // slots between two looks at whether the caller asked to stop
  const auto plane_slots = static_cast<size_t>(direct.plane_slots);
  const auto row_nbytes = p.in[2] * static_cast<int64_t>(element_size(p.dtype));
  const int64_t rows = p.in[0] * p.in[1];
  const auto pad_plane = [&](int64_t plane) {
    uint32_t* const to = slots + plane * direct.plane_slots;
    threads::in_pieces(context, plane_slots, kLook,
                       [&](size_t begin, size_t end) { std::fill(to + begin, to + end, 0u); });
    const int64_t channel = direct.pairs ? 2 * plane : plane;
    const bool both = direct.pairs && channel + 1 < p.in_channels;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = (row / p.in[1] + p.padding[0]) * direct.padded[1] + row % p.in[1] + p.padding[1];
      uint32_t* const line = to + at * direct.padded[2] + p.padding[2];
      const char* const from = image + (channel * rows + row) * row_nbytes;
      const char* const next = both ? from + rows * row_nbytes : nullptr;
      threads::in_pieces(context, static_cast<size_t>(p.in[2]), kLook,
                         [&](size_t begin, size_t end) { fill_slots(direct, from, next, begin, end, line); });
    }
  };
  threads::parallel_for(context, static_cast<size_t>(direct.planes), threads::grain_for(plane_slots),
                        [&](size_t begin, size_t end) {
                          for (size_t plane = begin; plane < end; ++plane) {
                            pad_plane(static_cast<int64_t>(plane));
                          }
                        });
}

/// The filters of one group as slots [blocks, steps, channels of a block], 0 for channels that are not there.
void pack_filters(const Direct& direct, const char* weight, uint32_t* packed) {
  const Problem& p = *direct.problem;
  const int64_t taps = p.taps();
  const auto channels = static_cast<int64_t>(direct.tile.channels);
  for (int64_t first = 0; first < p.out_channels; first += channels) {
    for (int64_t plane = 0; plane < direct.planes; ++plane) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t c = first; c < first + channels; ++c, ++packed) {
          *packed = 0;
          if (c >= p.out_channels) {
            continue;
          }
          const int64_t at = (c * p.in_channels + (direct.pairs ? 2 * plane : plane)) * taps + tap;
          if (direct.pairs) {
            const auto* const from = reinterpret_cast<const BFloat16*>(weight);
            const BFloat16 pair[2] = {from[at], 2 * plane + 1 < p.in_channels ? from[at + taps] : BFloat16()};
            std::memcpy(packed, pair, sizeof(pair));
          } else {
            const auto value = portable::load_one<float>(p.dtype, weight, at);
            std::memcpy(packed, &value, sizeof(value));
          }
        }
      }
    }
  }
}

/// As pack_filters, [blocks, taps, tiles of planes] of tiles.
void pack_tiles(const Direct& direct, const char* weight, uint32_t* packed) {
  const Problem& p = *direct.problem;
  const amx::PlaneTiles tiles{direct.planes};
  const auto* const filters = reinterpret_cast<const BFloat16*>(weight);
  for (int64_t first = 0; first < p.out_channels; first += amx::PlaneTiles::kChannels) {
    for (int64_t tap = 0; tap < p.taps(); ++tap) {
      for (int64_t tile = 0; tile < tiles.tiles(); ++tile, packed += amx::PlaneTiles::kWeights) {
        std::fill_n(packed, amx::PlaneTiles::kWeights, 0u);
        const int64_t end = std::min<int64_t>(first + amx::PlaneTiles::kChannels, p.out_channels);
        for (int64_t c = first; c < end; ++c) {
          for (int64_t plane = tile * tiles.of_tile(); plane < std::min((tile + 1) * tiles.of_tile(), direct.planes);
               ++plane) {
            const int64_t at = (c * p.in_channels + 2 * plane) * p.taps() + tap;
            const BFloat16 pair[2] = {filters[at], 2 * plane + 1 < p.in_channels ? filters[at + p.taps()] : BFloat16()};
            std::memcpy(packed + (c - first) * amx::PlaneTiles::kMostPlanes + plane - tiles.first_of(tile), pair,
                        sizeof(pair));
          }
        }
      }
    }
  }
}

/// The wanted ones of the sums of positions [first, first + n), moved together. Returns the output position of the
/// first.
int64_t keep_wanted(const Direct& direct, int64_t first, int64_t n, float* sums, int64_t* count) {
  const Problem& p = *direct.problem;
  int64_t start = -1;
  *count = 0;
  for (int64_t at = first; at < first + n;) {
    const int64_t w = at % direct.padded[2];
    const int64_t h = at / direct.padded[2] % direct.padded[1];
    const int64_t d = at / direct.padded[2] / direct.padded[1];
    const int64_t left = std::min(direct.padded[2] - w, first + n - at);  // of this row
    if (w < p.out[2] && h < p.out[1] && d < p.out[0]) {
      const int64_t wanted = std::min(left, p.out[2] - w);
      if (start < 0) {
        start = (d * p.out[1] + h) * p.out[2] + w;
      }
      std::memmove(sums + *count, sums + (at - first), static_cast<size_t>(wanted) * sizeof(float));
      *count += wanted;
    }
    at += left;
  }
  return start;
}

/// One image and group from its slots.
void convolve(KernelContext& context, const Direct& direct, const uint32_t* slots, const uint32_t* filters,
              const int64_t* offsets, const float* bias, char* out) {
  const Problem& p = *direct.problem;
  const size_t channels = direct.tile.channels;
  const auto size = static_cast<int64_t>(element_size(p.dtype));
  const size_t parts = (static_cast<size_t>(direct.positions) + kPositions - 1) / kPositions;
  const size_t work = direct.steps * channels * kPositions / 16;
  threads::parallel_for(context, parts * direct.blocks, threads::grain_for(work), [&](size_t begin, size_t end) {
    HWY_ALIGN float sums[amx::PlaneTiles::kChannels * kPositions];
    for (size_t i = begin; i < end && !context.cancelled(); ++i) {
      const size_t block = i % direct.blocks;
      const auto first = static_cast<int64_t>(i / direct.blocks * kPositions);
      const int64_t n = std::min(static_cast<int64_t>(kPositions), direct.positions - first);
      const uint32_t* const from = filters + block * direct.steps * channels;
      if (direct.by_tiles) {
        amx::multiply_planes({slots + first, direct.plane_slots, from, offsets,
                              direct.steps * channels / amx::PlaneTiles::kWeights,
                              static_cast<size_t>(amx::PlaneTiles{direct.planes}.of_tile()), bias + block * channels,
                              sums, kPositions, static_cast<size_t>(n)});
      } else {
        direct.tile.multiply(
            {slots + first, from, offsets, direct.steps, bias + block * channels, sums, static_cast<size_t>(n)});
      }
      for (size_t c = 0; c < channels; ++c) {
        const auto channel = static_cast<int64_t>(block * channels + c);
        if (channel >= p.out_channels) {
          break;
        }
        int64_t count = 0;
        const int64_t at = keep_wanted(direct, first, n, sums + c * kPositions, &count);
        if (count > 0) {
          floats_to(p.dtype, sums + c * kPositions, static_cast<size_t>(count),
                    out + (channel * p.positions_out() + at) * size);
        }
      }
    }
  });
}

DirectTile choose_tile(const DirectTiles& all, int64_t channels) {
  if (channels == 1) {
    return all.tiles[3];
  }
  const auto with_empty = [&](const DirectTile& tile) {
    const auto step = static_cast<int64_t>(tile.channels);
    return round_up(channels, step);
  };
  DirectTile best = all.tiles[0];
  for (const size_t i : {1, 2}) {
    best = with_empty(all.tiles[i]) < with_empty(best) ? all.tiles[i] : best;
  }
  return best;
}

}  // namespace

bool suits_direct(const Problem& p) {
  constexpr int64_t kFewChannels = 16;  // for which packing the windows of floats takes longer than the products
  if (p.dtype != ScalarType::BFloat16 && p.dtype != ScalarType::Half &&
      (p.dtype != ScalarType::Float || p.out_channels > kFewChannels)) {
    return false;
  }
  double padded = 1;
  for (size_t d = 0; d < 3; ++d) {
    if (p.stride[d] != 1) {
      return false;
    }
    padded *= static_cast<double>(p.in[d]) + 2.0 * static_cast<double>(p.padding[d]);
  }
  const auto elements = [](int64_t channels, int64_t positions) {
    return static_cast<double>(channels) * static_cast<double>(positions);
  };
  const double room = 4.0 * (elements(p.in_channels, p.positions_in()) + elements(p.out_channels, p.positions_out()));
  // Windows of nothing are more than the image with its border has positions.
  return p.in_channels > 0 && p.taps() > 0 && static_cast<double>(p.in_channels) * padded <= room + 65536.0 &&
         padded <= 2.0 * static_cast<double>(p.positions_out()) + 4096.0;
}

Error direct_convolution(KernelContext& context, const Problem& p, const void* input, const void* weight,
                         const void* bias, void* out) {
  Direct direct;
  direct.problem = &p;
  direct.pairs = p.dtype == ScalarType::BFloat16 && p.in_channels > 1 && HWY_DYNAMIC_DISPATCH(HasPairs)();
  direct.planes = direct.pairs ? (p.in_channels + 1) / 2 : p.in_channels;
  for (size_t d = 0; d < 3; ++d) {
    direct.padded[d] = p.in[d] + 2 * p.padding[d];
  }
  direct.plane_slots = direct.padded[0] * direct.padded[1] * direct.padded[2];
  direct.positions = ((p.out[0] - 1) * direct.padded[1] + p.out[1] - 1) * direct.padded[2] + p.out[2];
  const DirectTiles tiles = direct.pairs ? HWY_DYNAMIC_DISPATCH(PairTiles)() : HWY_DYNAMIC_DISPATCH(FloatTiles)();
  constexpr int64_t kLeastChannels = 4;
  direct.by_tiles = direct.pairs && amx::has_bfloat16_tiles() && direct.planes >= amx::PlaneTiles::kLeastPlanes &&
                    p.out_channels >= kLeastChannels;
  const amx::PlaneTiles plane_tiles{direct.planes};
  direct.tile = direct.by_tiles ? DirectTile{amx::PlaneTiles::kChannels, nullptr} : choose_tile(tiles, p.out_channels);
  direct.steps = static_cast<size_t>(
      p.taps() * (direct.by_tiles ? amx::PlaneTiles::kMostPlanes * plane_tiles.tiles() : direct.planes));
  direct.blocks = (static_cast<size_t>(p.out_channels) + direct.tile.channels - 1) / direct.tile.channels;
  const auto slots_count = static_cast<size_t>(direct.planes * direct.plane_slots) + kPositions;
  const size_t channels = direct.blocks * direct.tile.channels;
  ET_TRY(void* const slots_memory, context.allocate_temp(slots_count * sizeof(uint32_t)));
  ET_TRY(void* const filters_memory, context.allocate_temp(channels * direct.steps * sizeof(uint32_t)));
  ET_TRY(void* const offsets_memory, context.allocate_temp(direct.steps * sizeof(int64_t)));
  ET_TRY(void* const bias_memory, context.allocate_temp(channels * sizeof(float)));
  auto* const slots = static_cast<uint32_t*>(slots_memory);
  auto* const filters = static_cast<uint32_t*>(filters_memory);
  auto* const offsets = static_cast<int64_t*>(offsets_memory);
  auto* const biases = static_cast<float*>(bias_memory);
  std::fill_n(slots + slots_count - kPositions, kPositions, 0u);  // what the last tile reads beyond the last plane
  const auto offset_of = [&](int64_t plane, int64_t tap) {
    const int64_t d = tap / p.kernel[2] / p.kernel[1] * p.dilation[0];
    const int64_t h = tap / p.kernel[2] % p.kernel[1] * p.dilation[1];
    return plane * direct.plane_slots + (d * direct.padded[1] + h) * direct.padded[2] +
           tap % p.kernel[2] * p.dilation[2];
  };
  const int64_t parts = direct.by_tiles ? plane_tiles.tiles() : direct.planes;
  for (int64_t tap = 0; tap < p.taps(); ++tap) {
    for (int64_t part = 0; part < parts; ++part) {
      direct.by_tiles ? offsets[tap * parts + part] = offset_of(plane_tiles.first_of(part), tap)
                      : offsets[part * p.taps() + tap] = offset_of(part, tap);
    }
  }
  const auto size = static_cast<int64_t>(element_size(p.dtype));
  for (int64_t group = 0; group < p.groups; ++group) {
    const char* const of_group =
        static_cast<const char*>(weight) + group * p.out_channels * p.in_channels * p.taps() * size;
    direct.by_tiles ? pack_tiles(direct, of_group, filters) : pack_filters(direct, of_group, filters);
    std::fill_n(biases, channels, 0.0f);
    if (bias != nullptr) {
      floats_from(p.dtype, static_cast<const char*>(bias) + group * p.out_channels * size, 1,
                  static_cast<size_t>(p.out_channels), biases);
    }
    for (int64_t n = 0; n < p.batch; ++n) {
      ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "convolution: cancelled");
      const int64_t image = n * p.groups + group;
      pad_image(context, direct, static_cast<const char*>(input) + image * p.in_channels * p.positions_in() * size,
                slots);
      convolve(context, direct, slots, filters, offsets, biases,
               static_cast<char*>(out) + image * p.out_channels * p.positions_out() * size);
    }
  }
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "convolution: cancelled");
  return Error::Ok;
}

}  // namespace et::kernels::optimized::conv
#endif  // HWY_ONCE
