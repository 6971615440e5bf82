/// visit_dtype: from an element type that is known at run time to its C++ type, for every type of dtype.def.
///
/// For: code that treats all element types. Not for: kernels, which take some of them (kernels/portable/dispatch.h).
///
///     visit_dtype(tensor.scalar_type(), [&](auto zero) { print<decltype(zero)>(tensor); });
#pragma once

#include <utility>

#include "base/dtype.h"

namespace et {

/// Calls `visit(T{})`, where T is the C++ type of `dtype`, and returns the result. A value outside the list counts as
/// Byte; verified programs and tensors have none.
template <typename Visit>
decltype(auto) visit_dtype(ScalarType dtype, Visit&& visit) {
  switch (dtype) {
#define ET_DTYPE(name, value, c_type, text, nbytes, word) \
  case ScalarType::name: return std::forward<Visit>(visit)(c_type{});
#include "base/dtype.def"
#undef ET_DTYPE
  }
  return std::forward<Visit>(visit)(uint8_t{});
}

}  // namespace et
