// The masks that the tests of attention, of floats and of integers, vary.

#pragma once

#include <limits>

#include "kernel_harness.h"

namespace et::kernels::testing {

enum Mask { kNone, kFloat, kBool, kRowVector, kColumn, kAllHidden };

inline Call& add_mask(Call& call, Mask mask, int64_t batch, int64_t heads, int64_t rows, int64_t keys) {
  switch (mask) {
    case kNone: return call.none();
    case kFloat: return call.tensor({batch, heads, rows, keys});
    case kBool: return call.mask({1, 1, rows, keys});
    case kRowVector: return call.tensor({batch, 1, 1, keys});
    case kColumn: return call.tensor({rows, 1});
    case kAllHidden: break;
  }
  call.tensor({rows, keys});
  for (size_t i = 0; i < static_cast<size_t>(rows * keys); ++i) {
    call.set(i, -std::numeric_limits<float>::infinity());
  }
  return call;
}

}  // namespace et::kernels::testing
