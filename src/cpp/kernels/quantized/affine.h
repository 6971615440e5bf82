/// Integers that stand for real numbers: x = scale * (q - zero_point). What the kernels of this folder share: checks of
/// the parameters, and requantization, the step from a sum of products to the integers of a result.
///
/// For: op_*.cpp beside it. Not for: floats to integers and back (portable/op_quantize.cpp).
///
///     ET_TRY(const Requantizer out_of, Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min,
///     output_max})); out[i] = static_cast<T>(out_of(accumulator, scale));   // scale = input_scale * weight_scale /
///     output_scale, in float
///
/// The arithmetic is written down in docs/reference/numerics.md: int32 accumulators that wrap, scales in float, round
/// to nearest even, saturation. Results of 16 bits are products of integers, rounded once, halves up.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/portable/dispatch.h"
#include "kernels/portable/shape.h"
#include "numerics/exact_factor.h"
#include "numerics/fixed_point.h"
#include "numerics/float_bits.h"
#include "numerics/rounding.h"

namespace et::kernels::quantized {

using portable::check_rank;
using portable::check_row_major;
using portable::dispatch;
using portable::DTypes;
using portable::normalize_dim;
using portable::Sizes;

/// Element types of activations.
using Activations = DTypes<ScalarType::Char, ScalarType::Byte, ScalarType::Short>;

/// What integer kernels sum in: int32 for 8-bit activations, int64 where products of 16 bits would wrap soon.
template <typename T>
using Sum = std::conditional_t<sizeof(T) == 1, int32_t, int64_t>;

/// Bits that a sum of so many products loses before it is scaled.
template <typename T>
int surplus_of(int64_t terms, int bits) {
  return sizeof(T) == 1 ? 0 : surplus_bits(terms, bits);
}

/// a + b * c without undefined overflow.
inline int32_t multiply_add(int32_t a, int32_t b, int32_t c) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b) * static_cast<uint32_t>(c));
}
inline int64_t multiply_add(int64_t a, int64_t b, int64_t c) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b) * static_cast<uint64_t>(c));
}

/// The parameters of a tensor's integers, checked.
struct Affine {
  float scale = 1;
  int32_t zero_point = 0;

  /// `tensor`: whose they are, for messages. Errors: InvalidArgument unless the scale is a positive normal float and
  /// the zero point an integer of the type.
  static Result<Affine> make(const char* op, const char* tensor, ScalarType dtype, double scale, int64_t zero_point);
};

/// Errors: InvalidArgument unless the scale of `tensor` is a positive normal float. Writes it as one.
Error check_scale(const char* op, const char* tensor, double scale, float* out);
/// Errors: InvalidArgument unless a zero point or limit of `tensor`, which `part` names, is an integer of the type.
Error check_integer(const char* op, const char* tensor, const char* part, ScalarType dtype, int64_t value,
                    int32_t* out);
/// Errors: InvalidType unless the tensor has a type of Activations, and that of `like` when there is one.
Error check_activation(const char* op, const char* name, const Tensor& tensor, const Tensor* like = nullptr);
/// Scales of a weight's output channels: f32, one for all or one for each, in row-major order.
Error check_weight_scales(const char* op, const Tensor& scales, int64_t channels);
/// A bias of int32, one element an output channel, or none.
Error check_bias(const char* op, const OptionalTensor& bias, int64_t channels);

/// The affine parameters of a result and the range that its integers are clamped to (a fused activation).
struct OutputParameters {
  double scale;
  int64_t zero_point;
  int64_t min;
  int64_t max;
};

/// From real numbers in units of the output's scale to its integers.
class Requantizer {
 public:
  /// Errors: InvalidType for the type of `out`; InvalidArgument for parameters outside of it or an empty range.
  static Result<Requantizer> make(const char* op, const Tensor& out, const OutputParameters& result);

  float scale() const { return scale_; }
  int32_t zero_point() const { return zero_point_; }
  int32_t min() const { return min_; }
  int32_t max() const { return max_; }

  /// `units`: the result divided by its scale.
  int32_t operator()(float units) const {
    units = std::min(std::max(low_, units), high_);  // NaN is the least one
    return static_cast<int32_t>(round_to_even(units)) + zero_point_;
  }
  /// A sum of products; `scale` = their scale divided by that of the result.
  template <typename S>
  int32_t operator()(S sum, float scale) const {
    if constexpr (sizeof(S) == sizeof(int64_t)) {
      if (has_16_bits_) {
        return clamp(ExactFactor::of(scale)(sum) + zero_point_);
      }
    }
    return (*this)(static_cast<float>(sum) * scale);
  }
  /// The same of sums that lose `surplus` bits first (ExactFactor), which those of 8-bit activations never do.
  template <typename S>
  int32_t operator()(S sum, float scale, int surplus) const {
    return surplus == 0 ? (*this)(sum, scale) : (*this)(S(rounding_shift(sum, surplus)), std::ldexp(scale, surplus));
  }
  /// Clamps an integer that was made without a float.
  int32_t clamp(int64_t value) const {
    return static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(value, min_), max_));
  }

 private:
  float scale_ = 1;
  float low_ = 0, high_ = 0;  // bounds, less the zero point
  int32_t zero_point_ = 0, min_ = 0, max_ = 0;
  bool has_16_bits_ = false;
};

/// Units of a result in which products of an input and a weight count, for output channel i. Errors: InvalidArgument
/// when it is no finite float.
class ProductScales {
 public:
  static Result<ProductScales> make(const char* op, float input_scale, const Tensor& weight_scales, float output_scale);
  float operator[](int64_t channel) const { return input_scale_ * weight_scales_[channel * step_] / output_scale_; }

 private:
  const float* weight_scales_ = nullptr;
  int64_t step_ = 0;
  float input_scale_ = 1, output_scale_ = 1;
};

}  // namespace et::kernels::quantized
