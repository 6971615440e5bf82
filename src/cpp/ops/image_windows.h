/// How the windows of a convolution or pooling lie on an image, and how far off its result must begin when it is
/// written over the image.
///
/// For: planning, which lets results overlap images, and kernels/cortex_m, which refuses a plan that lets them overlap
/// too far. Images have their channels innermost and are alone in a batch.
///
/// A kernel that goes from the first pixel to the last needs what later windows read, not what earlier ones did. So the
/// result may begin in front of the image and follow the windows over it; from the last pixel to the first, behind it.
/// Source: Blacker, Bridges and Hadfield, "Diagonal Memory Optimisation for Machine Learning on Micro-controllers",
///         2020. That layers go in both directions, so that results do not wander off, is ours.
#pragma once

#include <algorithm>
#include <cstdint>

namespace et::ops {

/// Rows, then columns.
struct ImageWindows {
  int32_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
};

/// Bytes from the begin of the image to that of the result, at least.
struct Distances {
  int32_t in_front = 0;  ///< the result begins so far in front of the image and is made from the first pixel on,
  int32_t behind = 1;    ///< or so far behind it, and is made from the last pixel on

  bool allow(const void* image_begin, const void* result_begin) const {
    const auto image = reinterpret_cast<uintptr_t>(image_begin), result = reinterpret_cast<uintptr_t>(result_begin);
    return result <= image ? image - result >= static_cast<uintptr_t>(in_front)
                           : result - image >= static_cast<uintptr_t>(behind);
  }
};

/// From a pixel to the one that is computed next: -1 where the result lies behind its image.
inline int32_t pixel_step(const void* image, const void* result) {
  return reinterpret_cast<uintptr_t>(result) > reinterpret_cast<uintptr_t>(image) ? -1 : 1;
}

/// What convolutions compute at one time, at most: they read the image while they write it. A result with more channels
/// does not overlap its image. Poolings compute a pixel at one time.
constexpr int32_t kPixelsAtOnce = 4, kChannelsAtOnce = 64;

/// `in_bytes`, `out_bytes`: of a pixel. `at_once`: pixels that are computed at one time.
inline Distances distances(const ImageWindows& g, int32_t in_bytes, int32_t out_bytes, int32_t at_once) {
  Distances least;
  const int32_t pixels = g.out[0] * g.out[1];
  // Of the image, what a window reads at most; bounds, so that no product overflows where padding is all it shows.
  const auto first = [&](int32_t d, int32_t i) {
    return std::clamp<int32_t>(i * g.stride[d] - g.padding[d], 0, g.in[d] - 1);
  };
  const auto last = [&](int32_t d, int32_t i) {
    return std::clamp<int32_t>(i * g.stride[d] - g.padding[d] + (g.kernel[d] - 1) * g.dilation[d], -1, g.in[d] - 1);
  };
  int32_t pixel = 0;
  for (int32_t row = 0; row < g.out[0]; ++row) {
    // Windows of a row begin in front of all later rows' where padding does not cut both off at the top.
    const int32_t begin = first(0, row) * g.in[1], end = last(0, row) * g.in[1];
    const int32_t begin_below = row + 1 < g.out[0] ? first(0, row + 1) * g.in[1] : INT32_MAX;
    const int32_t end_above = row > 0 ? last(0, row - 1) * g.in[1] + g.in[1] : 0;
    for (int32_t column = 0; column < g.out[1]; ++column, ++pixel) {
      const int32_t from = std::min(begin + first(1, column), begin_below);
      const int32_t to = std::max(end + last(1, column) + 1, end_above);
      least.in_front = std::max(least.in_front, std::min(pixel + at_once, pixels) * out_bytes - from * in_bytes);
      least.behind = std::max(least.behind, to * in_bytes - std::max<int32_t>(pixel + 1 - at_once, 0) * out_bytes);
    }
  }
  return least;
}

/// Of a convolution of int8. False: its result and the image lie apart.
inline bool may_overlap(const ImageWindows& g, int64_t batch, int64_t in_channels, int64_t out_channels, int64_t groups,
                        Distances* least) {
  const bool is_depthwise = groups == in_channels && groups == out_channels;
  if (batch != 1 || out_channels > kChannelsAtOnce || (groups != 1 && !is_depthwise)) {
    return false;
  }
  *least = distances(g, static_cast<int32_t>(in_channels), static_cast<int32_t>(out_channels),
                     is_depthwise ? 1 : kPixelsAtOnce);
  return true;
}

}  // namespace et::ops
