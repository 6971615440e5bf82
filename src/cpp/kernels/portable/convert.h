/// Element types: conversion of values, and of runs of values to and from the types kernels compute in.
///
/// For: kernels that take any element type and compute in float (f16, bf16, f32), double (f64) or int64 (integers,
/// bool). An operation is compiled three times instead of once for each combination of element types. Not for:
/// promotion rules (promote.h).
///
/// Semantics: as ATen's casts. To bool: value != 0. Floating to integer: towards zero; what does not fit, NaN included,
/// is unspecified in ATen and gives the low bits of the int64 conversion here.
#pragma once

#include <limits>
#include <type_traits>

#include "runtime/kernel_types.h"

namespace et::kernels::portable {

/// Half, BFloat16 and their like (base/half.h): a class that converts to a float.
template <typename T>
inline constexpr bool is_small_float_type = std::is_class_v<T> && std::is_convertible_v<T, float>;

/// `value` as To, with ATen's meaning for every pair of element types.
template <typename To, typename From>
inline To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_small_float_type<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    constexpr From limit = static_cast<From>(9223372036854775808.0);
    const int64_t wide =
        value >= -limit && value < limit ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
    return static_cast<To>(wide);
  } else if constexpr (is_small_float_type<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_arithmetic_v<From> && !std::is_arithmetic_v<To>) {  // complex
    return To(convert<typename To::value_type>(value));
  } else {
    return static_cast<To>(value);
  }
}

/// `value` as a float of 16 bits holds it; other dtypes leave it alone.
inline float rounded_to(ScalarType dtype, float value) {
  return dtype == ScalarType::Half       ? float{Half(value)}
         : dtype == ScalarType::BFloat16 ? float{BFloat16(value)}
                                         : value;
}

/// A Scalar argument as T.
template <typename T>
inline T scalar_to(const Scalar& scalar) {
  return scalar.is_floating_point() ? convert<T>(scalar.to<double>()) : convert<T>(scalar.to<int64_t>());
}

/// The type that a kernel computes in for values of `dtype`: Float, Double or Long.
constexpr ScalarType compute_dtype(ScalarType dtype) {
  return dtype == ScalarType::Double ? ScalarType::Double : is_floating(dtype) ? ScalarType::Float : ScalarType::Long;
}

/// Reads `n` elements of `dtype`, `stride` elements apart, as C (float, double, int32_t or int64_t).
template <typename C>
void load(ScalarType dtype, const void* data, int64_t stride, int64_t n, C* out);
/// Writes `n` values of type C (float, double, int32_t, int64_t or bool) as elements of `dtype`, `stride` elements
/// apart.
template <typename C>
void store(ScalarType dtype, const C* values, int64_t n, void* data, int64_t stride);

/// One element.
template <typename C>
inline C load_one(ScalarType dtype, const void* data, int64_t index = 0) {
  if (dtype == dtype_of<C>) {
    return static_cast<const C*>(data)[index];
  }
  C value;
  load<C>(dtype, static_cast<const char*>(data) + index * static_cast<int64_t>(element_size(dtype)), 1, 1, &value);
  return value;
}
template <typename C>
inline void store_one(ScalarType dtype, C value, void* data, int64_t index = 0) {
  if (dtype == dtype_of<C>) {
    static_cast<C*>(data)[index] = value;
    return;
  }
  store<C>(dtype, &value, 1, static_cast<char*>(data) + index * static_cast<int64_t>(element_size(dtype)), 1);
}

/// Index `i` of an Int or Long tensor's data.
inline int64_t index_at(const Tensor& tensor, int64_t i) {
  return tensor.scalar_type() == ScalarType::Long ? static_cast<const int64_t*>(tensor.const_data_ptr())[i]
                                                  : load_one<int64_t>(tensor.scalar_type(), tensor.const_data_ptr(), i);
}

/// Writes a Scalar as one element of `dtype`.
void store_scalar(ScalarType dtype, const Scalar& value, void* data);

/// A Scalar operand as ATen computes with it: what does not fit the integer type `common` wraps first, and a float of
/// 16 bits is rounded to it. Products and quotients take a float as it is (exact_operand).
template <typename C>
inline C scalar_operand(ScalarType common, const Scalar& scalar) {
  if (!is_integral(common, true)) {
    const C number = scalar_to<C>(scalar);
    if constexpr (std::is_same_v<C, float>) {
      return rounded_to(common, number);
    }
    return number;
  }
  alignas(8) char element[8];
  store_scalar(common, scalar, element);
  return load_one<C>(common, element);
}

/// As scalar_operand, for operators that take a float as the number it is.
template <typename C>
inline C exact_operand(ScalarType common, const Scalar& scalar) {
  return is_integral(common, true) ? scalar_operand<C>(common, scalar) : scalar_to<C>(scalar);
}

/// Calls `f` with a value of the type that a kernel computes in for `dtype`.
template <typename F>
Error dispatch_compute(ScalarType dtype, F&& f) {
  switch (compute_dtype(dtype)) {
    case ScalarType::Float: return f(float{});
    case ScalarType::Double: return f(double{});
    default: return f(int64_t{});
  }
}

/// As dispatch_compute for operations on floating types only: integers compute in float.
template <typename F>
Error dispatch_float(ScalarType dtype, F&& f) {
  return dtype == ScalarType::Double ? f(double{}) : f(float{});
}

}  // namespace et::kernels::portable
