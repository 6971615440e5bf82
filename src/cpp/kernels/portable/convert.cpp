#include "kernels/portable/convert.h"

#include <algorithm>
#include <type_traits>

#include "kernels/portable/dispatch.h"
#include "kernels/portable/float_to_integer.h"

namespace et::kernels::portable {
namespace {

/// Calls `f(TypeTag<T>{})` with the C++ type of an element that this build loads and stores: all but complex numbers,
/// which are not computed in these types. Errors: InvalidType, with a message, for others.
template <typename F>
Error visit_stored(ScalarType dtype, const char* op, F&& f) {
  Error result = Error::Ok;
#define ET_DTYPE(name, value, c_type, text, nbytes, word)            \
  if constexpr (!is_complex(ScalarType::name)) {                     \
    if (detail::try_dispatch<ScalarType::name>(dtype, f, &result)) { \
      return result;                                                 \
    }                                                                \
  }
#include "base/dtype.def"
#undef ET_DTYPE
  return unsupported_dtype(op, dtype);
}

/// An element. A bool is read as the byte it is, since memory that a program shares between tensors may hold any byte.
template <typename T>
T element(const T* data, int64_t i) {
  if constexpr (std::is_same_v<T, bool>) {
    return reinterpret_cast<const uint8_t*>(data)[i] != 0;
  } else {
    return data[i];
  }
}

/// As convert(), with ATen's integers for floats that fit none.
template <typename To, typename From>
To cast(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    return float_to_integer<To>(value);
  } else {
    return portable::convert<To>(value);
  }
}

template <typename T, typename C>
void load_run(const T* data, int64_t stride, int64_t n, C* out) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = cast<C>(element(data, i));
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      out[i] = cast<C>(element(data, i * stride));
    }
  }
}

template <typename T, typename C>
void store_run(const C* values, int64_t n, T* data, int64_t stride) {
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) {
      data[i] = cast<T>(values[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) {
      data[i * stride] = cast<T>(values[i]);
    }
  }
}

}  // namespace

template <typename C>
void load(ScalarType dtype, const void* data, int64_t stride, int64_t n, C* out) {
  const Error error = visit_stored(dtype, "load", [&](auto tag) {
    load_run(static_cast<const typename decltype(tag)::type*>(data), stride, n, out);
    return Error::Ok;
  });
  if (error !=
      Error::Ok) {  // kernels refuse complex numbers; should one not, it computes with nothing that lay in memory
    std::fill_n(out, n, C(0));
  }
}

template <typename C>
void store(ScalarType dtype, const C* values, int64_t n, void* data, int64_t stride) {
  const Error error = visit_stored(dtype, "store", [&](auto tag) {
    store_run(values, n, static_cast<typename decltype(tag)::type*>(data), stride);
    return Error::Ok;
  });
  static_cast<void>(error);
}

template void load(ScalarType, const void*, int64_t, int64_t, float*);
template void load(ScalarType, const void*, int64_t, int64_t, double*);
template void load(ScalarType, const void*, int64_t, int64_t, int32_t*);
template void load(ScalarType, const void*, int64_t, int64_t, int64_t*);
template void store(ScalarType, const float*, int64_t, void*, int64_t);
template void store(ScalarType, const double*, int64_t, void*, int64_t);
template void store(ScalarType, const int32_t*, int64_t, void*, int64_t);
template void store(ScalarType, const int64_t*, int64_t, void*, int64_t);
template void store(ScalarType, const bool*, int64_t, void*, int64_t);

void store_scalar(ScalarType dtype, const Scalar& value, void* data) {
  if (dtype == ScalarType::ComplexFloat) {
    *static_cast<ComplexFloat*>(data) = {value.to<float>(), 0.0f};
  } else if (dtype == ScalarType::ComplexDouble) {
    *static_cast<ComplexDouble*>(data) = {value.to<double>(), 0.0};
  } else if (value.is_floating_point()) {
    store_one(dtype, value.to<double>(), data);
  } else {
    store_one(dtype, value.to<int64_t>(), data);
  }
}

}  // namespace et::kernels::portable
