/// Quantization of rows at run time: parameters from the smallest and the largest number, then integers. The arithmetic
/// of quantized_decomposed::choose_qparams* followed by quantize_per_tensor or quantize_per_token
/// (docs/reference/numerics.md).
///
/// For: kernels of et::dynamic_linear. Not for: the operators themselves, which keep to each element type's rounding.
///
///     const RunTimeQuantization choice{per_token, symmetric, -128, 127, eps};
///     const bool is_finite = choice.for_each_row(x, rows, columns, memory, [&](int64_t m, const int16_t* integers,
///                                                                              const RowParameters& p) { … });
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/number_range.h"
#include "numerics/rounding.h"

namespace et {

/// Affine parameters of a row of floats, or of all rows.
struct RowParameters {
  double scale = 1;  // as eager has it: the float that was chosen, in double
  float inverse = 1;
  int32_t zero_point = 0;
};

/// How parameters are chosen (quantized_decomposed::choose_qparams and its kin).
struct RunTimeQuantization {
  bool per_token, symmetric;
  int64_t quant_min, quant_max;
  float eps;

  /// True for ranges of 8-bit integers around zero, and scales that are above zero.
  bool is_valid() const {
    return quant_min >= -128 && quant_max <= 255 && quant_min <= 0 && quant_max > 0 && quant_max - quant_min <= 255 &&
           eps > 0;
  }

  RowParameters of(const NumberRange& range) const {
    RowParameters p;
    const auto low = static_cast<float>(quant_min), high = static_cast<float>(quant_max);
    float scale = 0;
    if (symmetric) {
      const float largest = std::max(-range.low, range.high);
      // Tokens: the least range, and the largest integer; tensors: the least scale, and half of the range.
      scale = per_token ? std::max(largest, eps) / high : std::max(largest / ((high - low) / 2), eps);
    } else {
      scale = std::max((range.high - range.low) / (high - low), eps);
      if (per_token) {
        const float first = range.low / scale, last = range.high / scale;
        const float exact = (low + first) + (high + last) > 0 ? low - first : high - last;
        p.zero_point = static_cast<int32_t>(round_to_even(within(exact, low, high)));
      } else {
        const float zero = low - round_to_even(range.low / scale);
        p.zero_point = static_cast<int32_t>(within(zero, low, high));
      }
    }
    p.scale = static_cast<double>(scale);
    p.inverse = static_cast<float>(1.0 / p.scale);
    return p;
  }

  /// The parameters of a row; `whole`: the range of all rows.
  RowParameters of_row(const NumberRange& whole, const float* row, int64_t columns) const {
    NumberRange range;
    range.add(row, per_token ? columns : 0);
    return of(per_token ? range : whole);
  }

  /// The integers of a row, less the zero point.
  void quantize(const float* values, int64_t n, const RowParameters& p, int16_t* out) const {
    if (per_token) {  // in double, and the zero point before rounding
      const double inverse = 1.0 / p.scale;
      const auto low = static_cast<double>(quant_min), high = static_cast<double>(quant_max);
      for (int64_t i = 0; i < n; ++i) {
        const double q = rounded_within(static_cast<double>(values[i]) * inverse + p.zero_point, low, high);
        out[i] = static_cast<int16_t>(static_cast<int32_t>(q) - p.zero_point);
      }
      return;
    }
    const auto low = static_cast<float>(quant_min - p.zero_point), high = static_cast<float>(quant_max - p.zero_point);
    for (int64_t i = 0; i < n; ++i) {
      out[i] = static_cast<int16_t>(rounded_within(values[i] * p.inverse, low, high));
    }
  }

  /// Calls take(m, integers less the zero point [columns], parameters) for each row of `x` [rows, columns]; the
  /// integers lie in `memory` [columns]. False, and nothing called, when a number is not finite: it has no integer.
  template <typename Take>
  bool for_each_row(const float* x, int64_t rows, int64_t columns, int16_t* memory, Take take) const {
    NumberRange whole;
    whole.add(x, rows * columns);
    if (!whole.is_finite()) {
      return false;
    }
    for (int64_t m = 0; m < rows; ++m) {
      const float* const row = x + m * columns;
      const RowParameters parameters = of_row(whole, row, columns);
      quantize(row, columns, parameters, memory);
      take(m, static_cast<const int16_t*>(memory), parameters);
    }
    return true;
  }

 private:
  /// A number of a range, the least one for NaN, which no integer stands for.
  template <typename T>
  static T within(T value, T low, T high) {
    return std::min(std::max(low, value), high);
  }
  /// That number as the nearest integer, the even one of two. Limits are integers of a byte or so: after them a sum
  /// rounds without a condition, of which compilers make vectors.
  template <typename T>
  static T rounded_within(T value, T low, T high) {
    constexpr T kWhole =
        std::is_same_v<T, float> ? T(12582912) : T(6755399441055744);  // 1.5 * 2^23, 1.5 * 2^52: steps of 1
    return (within(value, low, high) + kWhole) - kWhole;
  }
};

}  // namespace et
