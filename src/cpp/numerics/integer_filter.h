/// Filters of convolutions as integers with scales: value = scale * (integer - zero point).
///
/// For: et::weight_only_convolution, whose kernels make floats of them, once at load or a channel at a time.
/// Not for: integer convolutions, which use the integers.
///
///     IntegerFilter filter;
///     const ImageChannels channels{input.size(1), out.size(1)};
///     ET_RETURN_IF_ERROR(check_integer_filter(op, weight, scales, zero_points, channels, transposed, &filter));
///     dequantize(filter, dense);
#pragma once

#include "base/dtype.h"
#include "base/result.h"
#include "numerics/nibbles.h"

namespace et {

/// A filter [rows, columns, taps], row-major, that was checked. Channels of the output are its rows or, when
/// transposed, its columns; each has a scale and a zero point, or one is for all.
struct IntegerFilter {
  const void* data = nullptr;  ///< int8, or pairs of rows of 4 bits (numerics/nibbles.h)
  const float* scales = nullptr;
  const int8_t* zero_points = nullptr;  ///< nullptr: all 0
  size_t rows = 0, columns = 0, taps = 0;
  int64_t sizes[5] = {};  ///< [rows, columns, …]: a packed one's as if it had all rows
  size_t dim = 0;
  bool is_packed = false, is_transposed = false, has_one_scale = false;

  size_t row_size() const { return columns * taps; }
};

/// Of the images on both sides of a filter.
struct ImageChannels {
  int64_t in, out;
};

/// Fills `out` after everything was checked that is used as an address later. Tensors of the runtime or of ATen. How
/// many rows pairs of them are, the image on their side says. Errors: InvalidType; InvalidArgument, naming `op` and
/// what does not fit.
template <typename Tensor>
Error check_integer_filter(const char* op, const Tensor& weight, const Tensor& scales, const Tensor* zero_points,
                           ImageChannels images, bool transposed, IntegerFilter* out) {
  constexpr int kByte = 0, kChar = 1, kFloat = 6;
  const auto type_of = [](const Tensor& tensor) { return static_cast<int>(tensor.scalar_type()); };
  const auto is_dense = [](const Tensor& tensor) {
    int64_t stride = 1;
    for (int64_t d = tensor.dim(); d-- > 0;) {
      if (tensor.size(d) > 1 && tensor.stride(d) != stride) {
        return false;
      }
      stride *= tensor.size(d);
    }
    return true;
  };
  out->is_packed = type_of(weight) == kByte;
  ET_CHECK_OR_RETURN(out->is_packed || type_of(weight) == kChar, InvalidType,
                     "%s: the weight is %s, must be torch.int8, or torch.uint8 with two rows a byte", op,
                     to_string(static_cast<ScalarType>(type_of(weight))));
  ET_CHECK_OR_RETURN(type_of(scales) == kFloat && (zero_points == nullptr || type_of(*zero_points) == kChar),
                     InvalidType, "%s: weight_scales must be torch.float32, zero points torch.int8", op);
  ET_CHECK_OR_RETURN(weight.dim() >= 3 && weight.dim() <= 5 && is_dense(weight) && is_dense(scales) &&
                         (zero_points == nullptr || is_dense(*zero_points)),
                     InvalidArgument, "%s: the weight has rank %d, must be 3 to 5, and row-major as its scales", op,
                     static_cast<int>(weight.dim()));
  const int64_t rows = !out->is_packed ? weight.size(0) : transposed ? images.in : images.out;
  ET_CHECK_OR_RETURN(rows >= 0 && weight.size(0) == (out->is_packed ? packed_count(rows) : rows), InvalidArgument,
                     "%s: the weight's first size is %lld, which does not hold %lld rows", op,
                     static_cast<long long>(weight.size(0)), static_cast<long long>(rows));
  const int64_t channels = transposed ? weight.size(1) : rows;
  ET_CHECK_OR_RETURN((scales.numel() == channels || scales.numel() == 1) &&
                         (zero_points == nullptr || zero_points->numel() == scales.numel()),
                     InvalidArgument, "%s: %lld weight_scales, and as many zero points, for %lld channels", op,
                     static_cast<long long>(scales.numel()), static_cast<long long>(channels));
  out->data = weight.const_data_ptr();
  out->scales = static_cast<const float*>(scales.const_data_ptr());
  out->zero_points = zero_points == nullptr ? nullptr : static_cast<const int8_t*>(zero_points->const_data_ptr());
  out->rows = static_cast<size_t>(rows);
  out->columns = static_cast<size_t>(weight.size(1));
  out->dim = static_cast<size_t>(weight.dim());
  out->taps = 1;
  for (int64_t d = 0; d < weight.dim(); ++d) {
    out->sizes[d] = d == 0 ? rows : weight.size(d);
    out->taps *= d < 2 ? 1 : static_cast<size_t>(weight.size(d));
  }
  out->is_transposed = transposed;
  out->has_one_scale = scales.numel() == 1;
  return Error::Ok;
}

/// The taps of one row and column as floats.
inline void dequantize_taps(const IntegerFilter& f, size_t row, size_t column, float* out) {
  const size_t channel = f.has_one_scale ? 0 : f.is_transposed ? column : row;
  const float scale = f.scales[channel];
  const float zero = f.zero_points == nullptr ? 0.0f : static_cast<float>(f.zero_points[channel]);
  if (!f.is_packed) {
    const int8_t* const from = static_cast<const int8_t*>(f.data) + (row * f.columns + column) * f.taps;
    for (size_t i = 0; i < f.taps; ++i) {
      out[i] = (static_cast<float>(from[i]) - zero) * scale;
    }
    return;
  }
  const uint8_t* const from = static_cast<const uint8_t*>(f.data) + (row / 2 * f.columns + column) * f.taps;
  for (size_t i = 0; i < f.taps; ++i) {
    const int8_t value = row % 2 == 0 ? low_nibble(from[i]) : high_nibble(from[i]);
    out[i] = (static_cast<float>(value) - zero) * scale;
  }
}

/// All of it as floats [rows, columns, taps].
inline void dequantize(const IntegerFilter& f, float* out) {
  for (size_t row = 0; row < f.rows; ++row) {
    for (size_t column = 0; column < f.columns; ++column, out += f.taps) {
      dequantize_taps(f, row, column, out);
    }
  }
}

}  // namespace et
