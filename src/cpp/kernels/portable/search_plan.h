/// What searches in sorted sequences (searchsorted, bucketize) check and find out before they begin.
#pragma once

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

struct SearchPlan {
  int64_t length;  ///< of a sequence
  int64_t values;  ///< that are looked up in one sequence; each sequence has that many
};

/// Checks shapes and the type of `out`, and resizes it. `sorted`: [length], or [..., length] with the values' leading
/// sizes. Errors: InvalidType, InvalidArgument, naming `op`; those of resize_tensor.
Result<SearchPlan> plan_search(KernelContext& context, const char* op, const Tensor& sorted, const Tensor& values,
                               bool out_int32, const Tensor& out);

}  // namespace et::kernels::portable
