/// Broadcasting as few, long, regular loops.
///
/// For: pointwise operators (pointwise.h), of any shapes and dim orders. The loops walk the output in memory order;
/// each operand gets a stride for every loop, 0 where it is broadcast. Dimensions that every operand steps through
/// evenly are merged, so that equal shapes give one loop, a bias on rows two. Not for: copies (strided_copy.h).
///
///     BroadcastLoops loops;
///     ET_RETURN_IF_ERROR(broadcast_loops(context, "aten::add", {&self, &other}, out, &loops));      // resizes out
#pragma once

#include "runtime/kernel_types.h"

namespace et::kernels::optimized {

/// How many operands a pointwise operator has at most.
inline constexpr size_t kMaxOperands = 3;

/// Loop 0 is the innermost one. An output of one element has no loop, an empty one a loop of size 0.
struct BroadcastLoops {
  size_t count = 0;
  size_t size[runtime::kMaxRank];
  int64_t stride[kMaxOperands][runtime::kMaxRank];  // in elements
};

/// Broadcasts, resizes `out` and finds the loops. An operand that is nullptr is one number for all elements.
/// Errors: InvalidArgument for shapes that do not fit; those of resize_tensor.
Error broadcast_loops(KernelContext& context, const char* op, Span<const Tensor* const> operands, const Tensor& out,
                      BroadcastLoops* loops);

}  // namespace et::kernels::optimized
