/// Checks of index data: every index is looked at before a kernel writes anything.
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::portable {

/// Errors: InvalidArgument unless each element of `indices` lies in [low, size), naming the operator, the index, the
/// range and its position; InvalidType unless the indices are i32 or i64.
Error check_indices(const char* op, const Tensor& indices, int64_t size, int64_t low);

}  // namespace et::kernels::portable
