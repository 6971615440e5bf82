/// Conversions of runs of 16-bit floats that somebody else does better.
///
/// For: a library with vector code (kernels/optimized), when it registers its kernels; load() and store() of convert.h
/// then give it what lies side by side. Not for: other values than theirs.
#pragma once

#include <cstddef>

#include "runtime/kernel_types.h"

namespace et::kernels::portable {

/// `dtype`: Half or BFloat16.
struct RunConversions {
  void (*load)(ScalarType dtype, const void* data, size_t n, float* out);
  void (*store)(ScalarType dtype, const float* values, size_t n, void* data);
};

/// `conversions` stay where they are until the process ends. From any thread.
void use_run_conversions(const RunConversions& conversions);

}  // namespace et::kernels::portable
