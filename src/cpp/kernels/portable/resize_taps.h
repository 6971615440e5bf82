/// The inputs that one output of an interpolation is made of, and their weights.
///
/// For: linear and cubic interpolation, of floats and of images of bytes, which have weights in fixed point.
/// Antialiased
///      resizing (op_upsample_aa.cpp) takes the fixed point only.
#pragma once

#include <cmath>

#include "kernels/portable/resize_axis.h"

namespace et::kernels::portable {

/// Up to four positions along one dimension; those that are not used have the weight 0 and a position inside of it.
template <typename C>
struct Taps {
  int64_t position[4];
  C weight[4];
};

template <typename C>
Taps<C> linear_taps(const ResizeAxis& axis, int64_t o, bool align_corners) {
  const LinearTap<C> tap = linear_tap<C>(axis, o, align_corners);
  return {{tap.low, tap.high, 0, 0}, {C(1) - tap.fraction, tap.fraction, C(0), C(0)}};
}

/// Cubic convolution with a = -0.75. Source: Keys, "Cubic convolution interpolation", 1981.
template <typename C>
Taps<C> cubic_taps(const ResizeAxis& axis, int64_t o, bool align_corners) {
  const C x = align_corners ? static_cast<C>(o) * static_cast<C>(axis.scale)
                            : (static_cast<C>(o) + C(0.5)) * static_cast<C>(axis.scale) - C(0.5);
  const C low = std::floor(x);
  const auto first = low < static_cast<C>(axis.in) ? static_cast<int64_t>(low) : axis.in;  // NaN too
  const C t = x - low;
  constexpr C a = C(-0.75);
  const auto near = [](C v) { return ((a + C(2)) * v - (a + C(3))) * v * v + C(1); };
  const auto far = [](C v) { return ((a * v - C(5) * a) * v + C(8) * a) * v - C(4) * a; };
  Taps<C> taps{{}, {far(t + C(1)), near(t), near(C(1) - t), far(C(2) - t)}};
  for (int64_t k = 0; k < 4; ++k) {
    const int64_t p = first - 1 + k;
    taps.position[k] = p < 0 ? 0 : p >= axis.in ? axis.in - 1 : p;
  }
  return taps;
}

/// Bits after the point of weights in fixed point, 0 to 22: as many as keep the largest weight in 16 bits.
int fixed_point_bits(double largest);
/// A weight with so many bits after the point; one that is no number is 0.
int32_t fixed_point(double weight, int bits);
/// The byte nearest to a sum with so many bits after the point, which began with fixed_point_half(bits).
inline int32_t fixed_point_half(int bits) { return bits == 0 ? 0 : int32_t{1} << (bits - 1); }
inline uint8_t byte_of(int32_t sum, int bits) {
  sum >>= bits;
  return static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/// One dimension of an image of bytes, which ATen resizes with weights of 16 bits.
///
/// Source: ATen's UpSampleKernelAVXAntialias (compute_indices_int16_weights_aa), from Pillow's Resample.c: the bits
/// after the point are as many as keep the largest weight of the dimension in 16 bits.
class ByteAxis {
 public:
  ByteAxis(const ResizeAxis& axis, bool align_corners, bool cubic);

  /// Inputs an output is made of: 2 or 4.
  int64_t num_taps() const { return is_cubic_ ? 4 : 2; }
  /// The bits after the point of a weight, 0 to 22.
  int bits() const { return bits_; }
  /// The positions and fixed-point weights, of 16 bits each, of output `o`.
  Taps<int32_t> taps(int64_t o) const;

 private:
  Taps<double> exact_taps(int64_t o) const;

  ResizeAxis axis_;
  bool align_corners_;
  bool is_cubic_;
  int bits_ = 0;
};

}  // namespace et::kernels::portable
