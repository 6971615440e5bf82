/// From an element type known at run time to a C++ type.
///
/// For: kernels whose inner loop is a template. A build that selects element types (-DET_SELECT_OPS) defines
/// ET_DTYPE_MASK for each kernel file, and the branches of the other types are not compiled.
/// Not for: elementwise kernels; those compute in three types only (elementwise.h).
///
///     return dispatch<FloatTypes>(self.scalar_type(), "aten::_softmax", [&](auto tag) {
///       using T = typename decltype(tag)::type;
///       return softmax<T>(context, self, dim, out);
///     });
#pragma once

#include <type_traits>

#include "runtime/kernel_types.h"

#ifndef ET_DTYPE_MASK
#define ET_DTYPE_MASK 0xffffffffu
#endif

namespace et::kernels::portable {

/// True when this file is built for `dtype`.
constexpr bool is_dtype_built(ScalarType dtype) { return (ET_DTYPE_MASK >> static_cast<uint32_t>(dtype) & 1u) != 0; }

/// A C++ type as a value, for generic lambdas.
template <typename T>
struct TypeTag {
  using type = T;
};

/// A list of element types.
template <ScalarType... Types>
struct DTypes {};

using FloatTypes = DTypes<ScalarType::Half, ScalarType::BFloat16, ScalarType::Float, ScalarType::Double>;
using IntegralTypes = DTypes<ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long>;
using RealTypes = DTypes<ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long,
                         ScalarType::Half, ScalarType::BFloat16, ScalarType::Float, ScalarType::Double>;
using RealAndBoolTypes =
    DTypes<ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long, ScalarType::Half,
           ScalarType::BFloat16, ScalarType::Float, ScalarType::Double, ScalarType::Bool>;
/// Numbers that are added in their own type (integers wrap): all but the 16-bit floats.
using WholeTypes = DTypes<ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long,
                          ScalarType::Float, ScalarType::Double>;
using IndexTypes = DTypes<ScalarType::Int, ScalarType::Long>;

/// What sums and products of T are accumulated in: float for the 16-bit floats, int64 for integers, else T itself.
template <typename T>
struct AccumulateIn {
  using type = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
};
template <>
struct AccumulateIn<Half> {
  using type = float;
};
template <>
struct AccumulateIn<BFloat16> {
  using type = float;
};
template <typename T>
using Accumulator = typename AccumulateIn<T>::type;

/// Logs that `op` does not take `dtype` and returns InvalidType.
Error unsupported_dtype(const char* op, ScalarType dtype);

namespace detail {

template <ScalarType Type, typename F>
bool try_dispatch(ScalarType dtype, F& f, Error* result) {
  if constexpr (is_dtype_built(Type)) {
    if (dtype == Type) {
      *result = f(TypeTag<typename CTypeOf<Type>::type>{});
      return true;
    }
  }
  return false;
}

template <typename F, ScalarType... Types>
Error dispatch_list(ScalarType dtype, const char* op, F& f, DTypes<Types...>) {
  Error result = Error::Ok;
  if ((try_dispatch<Types>(dtype, f, &result) || ...)) {
    return result;
  }
  return unsupported_dtype(op, dtype);
}

}  // namespace detail

/// Calls `f(TypeTag<T>{})` with the C++ type of `dtype`, which must be in `List`.
/// Errors: InvalidType when it is not (or not part of this build); else what `f` returns.
template <typename List, typename F>
Error dispatch(ScalarType dtype, const char* op, F&& f) {
  return detail::dispatch_list(dtype, op, f, List{});
}

/// Calls `f` with the unsigned integer type that has the size of an element: for kernels that only move elements.
template <typename F>
Error dispatch_by_size(size_t element_size, F&& f) {
  switch (element_size) {
    case 1: return f(TypeTag<uint8_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    case 8: return f(TypeTag<uint64_t>{});
    default: return f(TypeTag<ComplexDouble>{});
  }
}

}  // namespace et::kernels::portable
