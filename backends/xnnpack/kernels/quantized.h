/// What the integer kernels of this folder share: reading affine parameters at load.
///
/// For: quantized_linear.cpp and quantized_convolution.cpp, twins of the plain kernels in kernels/quantized and equal
/// to them bit for bit. Not for: types that the library has no kernels for; `prepare` refuses them and the plain kernel
/// runs.
#pragma once

#include "backends/xnnpack/kernels/library.h"

namespace et::backends::xnnpack {

/// Parameters of a product of int8.
struct ProductParameters {
  int8_t input_zero_point = 0, output_zero_point = 0, output_min = 0, output_max = 0;
  float input_scale = 1, output_scale = 1;
  const float* weight_scales =
      nullptr;                    ///< one for each output channel; owned by `copy` where the constant has one for all
  const int32_t* bias = nullptr;  ///< nullptr = none

  ProductParameters() = default;
  ProductParameters(const ProductParameters&) = delete;
  ProductParameters& operator=(const ProductParameters&) = delete;
  ~ProductParameters() { delete[] copy; }

  /// Reads a call (input, input_scale, input_zero_point, weight, weight_scales, bias, …, output_scale,
  /// output_zero_point, output_min, output_max, out) for `channels` output channels; `output` = index of output_scale.
  /// Errors: NotSupported, silently, for what is not int8, constant or within the library's limits.
  Error read(const PrepareContext& context, Span<EValue* const> args, size_t output, int64_t channels);

  /// Of what packed weights hold beside the weight: the scales and the zero point of the input.
  uint64_t hash() const;

  float* copy = nullptr;
  int64_t channels = 0;
};

/// True for a weight of bytes, or of 4 bits two a byte.
inline bool is_integer_weight(const EValue& value) {
  const ScalarType dtype = value.is_tensor() ? value.to_tensor().scalar_type() : ScalarType::Float;
  return dtype == ScalarType::Char || dtype == ScalarType::Byte;
}

/// True when the tensor has int8 elements.
inline bool is_int8_tensor(const EValue& value) {
  return value.is_tensor() && value.to_tensor().scalar_type() == ScalarType::Char;
}

}  // namespace et::backends::xnnpack
