/// The rules of resizing along one dimension: how long the output is, and which inputs an output is made of.
///
/// For: resizing by nearest neighbour and by interpolation. Not for: antialiased resizing, whose filters grow with the
///      scale.
///
/// Source: torch.nn.functional.interpolate. Output o reads input coordinate
///   align_corners:  o * (in - 1) / (out - 1)
///   else:           (o + 0.5) * scale - 0.5   with scale = 1 / factor when one is given, in / out otherwise
///   nearest:        floor(o * scale), "exact" floor((o + 0.5) * scale).
/// Whatever the factor is, an output as long as the input is a copy for linear interpolation and for nearest (not
/// "exact") of two dimensions, where one twice as long has each element twice, too.
#pragma once

#include <cmath>

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

struct ResizeAxis {
  int64_t in = 1;
  int64_t out = 1;
  double scale = 0;  ///< input elements an output element
};

/// What the vector overloads take: one number a spatial dimension.
using ResizeSizes = std::optional<IntArrayRef>;
using ResizeFactors = std::optional<Span<const double>>;

/// The scale of coordinates; a factor that is not positive counts as none.
inline double resize_scale(int64_t in, int64_t out, double factor, bool align_corners) {
  if (align_corners) {
    return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  }
  return factor > 0 ? 1.0 / factor : static_cast<double>(in) / static_cast<double>(out);
}

/// Fills the last `spatial` of three axes, and sets the spatial dimensions of `sizes` (of the output) to theirs.
/// Errors: InvalidArgument, naming `op`, for inputs that are no [N, C, spatial…], for lists of another length, where
///         neither sizes nor factors are given, and for empty images.
Error resize_axes(const char* op, const Tensor& input, size_t spatial, const ResizeSizes& output_size,
                  const ResizeFactors& factors, bool align_corners, ResizeAxis (&axes)[3], Sizes* sizes);

/// The position below x >= 0, at most the last one; that for NaN, too, which a scale that is no number gives.
template <typename C>
int64_t bounded_position(C x, int64_t size) {
  const int64_t position = x < static_cast<C>(size) ? static_cast<int64_t>(x) : size - 1;
  return position < size - 1 ? position : size - 1;
}

/// How ATen finds the element that an output of resizing by nearest neighbour copies.
struct NearestRule {
  bool is_exact;
  bool in_double;   ///< rounded to float; else in float
  bool has_copies;  ///< where the output is as long as the input or twice as long
};

inline NearestRule nearest_rule(const Tensor& input, size_t spatial, bool is_exact) {
  return {is_exact, input.scalar_type() == ScalarType::Double && spatial != 2, !is_exact && spatial == 2};
}

inline int64_t nearest_position(const ResizeAxis& axis, int64_t o, const NearestRule& rule) {
  if (rule.has_copies && (axis.out == axis.in || axis.out == 2 * axis.in)) {
    return axis.out == axis.in ? o : o / 2;
  }
  const double middle = rule.is_exact ? 0.5 : 0.0;
  const auto place = rule.in_double
                         ? static_cast<float>((static_cast<double>(o) + middle) * axis.scale)
                         : (static_cast<float>(o) + static_cast<float>(middle)) * static_cast<float>(axis.scale);
  return bounded_position(std::floor(place), axis.in);
}

/// Output = (1 - fraction) * input[low] + fraction * input[high].
template <typename C>
struct LinearTap {
  int64_t low;
  int64_t high;
  C fraction;  ///< in [0, 1], or NaN
};

template <typename C>
LinearTap<C> linear_tap(const ResizeAxis& axis, int64_t o, bool align_corners) {
  if (axis.in == axis.out) {
    return {o, o, C(0)};
  }
  const C scale = static_cast<C>(axis.scale);
  C x = align_corners ? static_cast<C>(o) * scale : (static_cast<C>(o) + C(0.5)) * scale - C(0.5);
  x = x < C(0) ? C(0) : x;
  const int64_t low = bounded_position(x, axis.in);
  const C fraction = x - static_cast<C>(low);
  return {low, low < axis.in - 1 ? low + 1 : low, fraction < C(0) ? C(0) : fraction > C(1) ? C(1) : fraction};
}

}  // namespace et::kernels::portable
