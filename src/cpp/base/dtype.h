/// ScalarType: the element types, made from dtype.def.
///
/// For: the number that is stored in files, its name, its size, and the map between C++ types and values.
/// Not for: promotion rules (kernels/portable/promote.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"

namespace et {

/// Element type of a tensor; the values are PyTorch's and the file format's.
enum class ScalarType : int8_t {
#define ET_DTYPE(name, value, c_type, text, nbytes, word) name = value,
#include "base/dtype.def"
#undef ET_DTYPE
};

/// True when `value` is one of the types in dtype.def.
constexpr bool is_valid_dtype(int64_t value) {
  switch (value) {
#define ET_DTYPE(name, number, c_type, text, nbytes, word) case number:
#include "base/dtype.def"
#undef ET_DTYPE
    return true;
    default: return false;
  }
}

/// Bytes of one element; 0 for a value outside the list.
constexpr size_t element_size(ScalarType dtype) {
  switch (dtype) {
#define ET_DTYPE(name, value, c_type, text, nbytes, word) \
  case ScalarType::name: return nbytes;
#include "base/dtype.def"
#undef ET_DTYPE
  }
  return 0;
}

/// The name that PyTorch prints ("torch.float32"), for messages; "?" for a value outside the list.
constexpr const char* to_string(ScalarType dtype) {
  switch (dtype) {
#define ET_DTYPE(name, value, c_type, text, nbytes, word) \
  case ScalarType::name: return "torch." #word;
#include "base/dtype.def"
#undef ET_DTYPE
  }
  return "?";
}

/// The short name of the IR's text form ("f32"); "?" for a value outside the list.
constexpr const char* short_name(ScalarType dtype) {
  switch (dtype) {
#define ET_DTYPE(name, value, c_type, text, nbytes, word) \
  case ScalarType::name: return #text;
#include "base/dtype.def"
#undef ET_DTYPE
  }
  return "?";
}

/// `dtype_of<float>` is ScalarType::Float, and so on for each C++ type of the list.
template <typename T>
struct DTypeOf;
/// `CTypeOf<ScalarType::Float>::type` is float.
template <ScalarType>
struct CTypeOf;
#define ET_DTYPE(name, value, c_type, text, nbytes, word)    \
  template <>                                                \
  struct DTypeOf<c_type> {                                   \
    static constexpr ScalarType value_of = ScalarType::name; \
  };                                                         \
  template <>                                                \
  struct CTypeOf<ScalarType::name> {                         \
    using type = c_type;                                     \
  };                                                         \
  static_assert(sizeof(c_type) == nbytes, #name);
#include "base/dtype.def"
#undef ET_DTYPE
template <typename T>
inline constexpr ScalarType dtype_of = DTypeOf<T>::value_of;

constexpr bool is_complex(ScalarType dtype) {
  return dtype == ScalarType::ComplexFloat || dtype == ScalarType::ComplexDouble;
}
/// The floats of 16 bits, which are computed in float and rounded once, as in ATen.
constexpr bool is_small_float(ScalarType dtype) { return dtype == ScalarType::Half || dtype == ScalarType::BFloat16; }
constexpr bool is_floating(ScalarType dtype) {
  return is_small_float(dtype) || dtype == ScalarType::Float || dtype == ScalarType::Double;
}
/// Integer types, with or without bool.
constexpr bool is_integral(ScalarType dtype, bool include_bool) {
  return !is_floating(dtype) && !is_complex(dtype) && (include_bool || dtype != ScalarType::Bool);
}

}  // namespace et
