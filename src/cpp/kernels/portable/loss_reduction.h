/// What becomes of the losses of pairs of elements, for the portable and the optimized kernels. Not for: other
/// reductions (reduce.h).
#pragma once

#include "kernels/portable/convert.h"

namespace et::kernels::portable {

inline constexpr int64_t kEachLoss = 0, kMeanLoss = 1, kSumOfLosses = 2;  // ATen's numbers

/// Writes the mean or the sum of `count` losses, whose sum is `total`.
inline void store_loss(double total, int64_t count, int64_t reduction, const Tensor& out) {
  store_one(out.scalar_type(), reduction == kMeanLoss ? total / static_cast<double>(count) : total,
            out.mutable_data_ptr());
}

}  // namespace et::kernels::portable
