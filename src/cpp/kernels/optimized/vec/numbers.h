/// Numbers among a kernel's arguments.
///
/// For: kernels that read them in `prepare`. Not for: tensors (fitting.h).
#pragma once

#include <limits>
#include <utility>

#include "runtime/kernel_types.h"

namespace et::kernels::optimized {

/// True when a Scalar argument is a whole number (or a bool), so that it leaves an integer dtype as it is.
inline bool is_whole(const EValue& value) { return value.is_int() || value.is_bool(); }
/// A Scalar argument as float, rounded once.
inline float number_as_float(const EValue& value) {
  return value.is_double() ? static_cast<float>(value.to_double()) : static_cast<float>(value.number_as_int());
}

/// The range that a clamp leaves; infinite where an end is open.
struct Range {
  float min = -std::numeric_limits<float>::infinity();
  float max = std::numeric_limits<float>::infinity();
};

/// The range of the numbers or Nones `min` and `max`, nullptr for an operator without them.
/// Errors: NotSupported, silently, when it is empty, one end is not a number, or one is computed at run time.
inline Result<Range> read_range(const runtime::PrepareContext& context, const EValue* min, const EValue* max) {
  Range range;
  for (const auto& [value, end] : {std::pair(min, &range.min), std::pair(max, &range.max)}) {
    if (value != nullptr && !value->is_none()) {
      if (!context.is_constant(*value)) {
        return Error::NotSupported;
      }
      *end = number_as_float(*value);
    }
  }
  if (!(range.min <= range.max)) {  // also when one is not a number
    return Error::NotSupported;
  }
  return range;
}

}  // namespace et::kernels::optimized
