/// Where a grid samples an image: from its numbers in [-1, 1] to positions in pixels, and what counts outside.
///
/// For: grid_sampler_2d and grid_sampler_3d. Not for: resizing, whose positions follow from sizes (resize_axis.h).
///
///     const float x = pad_position_2d(unnormalize(grid[0], width, align_corners), width, padding, align_corners);
///
/// Source: torch.nn.functional.grid_sample.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

enum class GridInterpolation : int64_t { kBilinear = 0, kNearest = 1, kBicubic = 2 };
enum class GridPadding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

/// From [-1, 1] to pixels: corners are pixel centres (align) or pixel edges.
template <typename T>
T unnormalize(T x, int64_t size, bool align_corners) {
  return align_corners ? (x + 1) / 2 * static_cast<T>(size - 1) : ((x + 1) * static_cast<T>(size) - 1) / 2;
}

template <typename T>
T clip(T x, int64_t size) {
  return std::min(static_cast<T>(size - 1), std::max(x, T(0)));  // NaN gives size - 1
}

/// Folds x into [low / 2, high / 2] by reflections at both ends.
template <typename T>
T reflect(T x, int64_t twice_low, int64_t twice_high) {
  if (twice_low == twice_high) {
    return 0;
  }
  const T low = static_cast<T>(twice_low) / 2;
  const T span = static_cast<T>(twice_high - twice_low) / 2;
  x = std::abs(x - low);
  const T rest = std::fmod(x, span);
  const bool is_even = std::fmod(std::floor(x / span), T(2)) == 0;  // as a number: it need not fit an integer
  return is_even ? rest + low : span - rest + low;
}

template <typename T>
T pad_position(T x, int64_t size, GridPadding padding, bool align_corners) {
  if (padding == GridPadding::kBorder) {
    return clip(x, size);
  }
  if (padding == GridPadding::kReflection) {
    return clip(align_corners ? reflect(x, 0, 2 * (size - 1)) : reflect(x, -1, 2 * size - 1), size);
  }
  // Positions far outside sample nothing, and must not overflow an integer.
  return std::isfinite(x) && std::abs(x) < T(1e9) ? x : T(-100);
}

/// The same in an image, where eager takes the first pixel for a position that is not a number once it is reflected.
template <typename T>
T pad_position_2d(T x, int64_t size, GridPadding padding, bool align_corners) {
  const bool is_lost = std::isnan(x) || (padding == GridPadding::kReflection && std::isinf(x));
  return is_lost && padding != GridPadding::kZeros ? T(0) : pad_position(x, size, padding, align_corners);
}

/// Checks a call with an input [N, C, spatial...] and a grid [N, spatial of the output..., spatial dims], and resizes
/// `out`. Errors: InvalidArgument, naming `op`, for other shapes, images without pixels and modes that there are not;
///         InvalidType for several element types; NotSupported for tensors that are not row-major.
Error check_grid_sampler(KernelContext& context, const char* op, const Tensor& input, const Tensor& grid,
                         int64_t spatial_dims, int64_t interpolation_mode, int64_t last_interpolation,
                         int64_t padding_mode, Tensor& out);

}  // namespace et::kernels::portable
