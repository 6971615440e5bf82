/// Linear layers whose weight never changes: what their kernels have in common.
///
/// For: row_product.cpp and conv/pixel_linear.cpp, each with conditions of its own. linear(input, weight, bias, [min,
///      max,] out)
#pragma once

#include "kernels/optimized/vec/clamped_kernels.h"
#include "kernels/optimized/vec/numbers.h"
#include "kernels/optimized/vec/prepared.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_matmul.h"
#include "runtime/host/kernel_costs.h"

namespace et::kernels::optimized::matmul {

/// True for floats, a constant row-major weight [out, in] that is not empty, rows that fit it, and a bias [out] or
/// none.
inline bool has_constant_weight(const runtime::PrepareContext& context, Arguments args) {
  const EValue &bias = *args[2], &out = *args[args.size() - 1];
  if (!is_float(*args[0]) || !is_float(*args[1]) || !is_float_or_none(bias) || !is_float(out) ||
      !context.is_constant(*args[1])) {
    return false;
  }
  const Tensor input = args[0]->to_tensor(), weight = args[1]->to_tensor();
  return weight.dim() == 2 && is_row_major(*args[1]) && weight.numel() > 0 && input.dim() >= 1 &&
         out.to_tensor().dim() == input.dim() && input.size(-1) == weight.size(1) &&
         (bias.is_none() || (bias.to_tensor().dim() == 1 && bias.to_tensor().numel() == weight.size(0)));
}

/// Offers what the product of `rows` rows costs.
inline Error offer_rows(void** state, int64_t rows, const Tensor& weight) {
  const auto columns = static_cast<double>(weight.size(0)), depth = static_cast<double>(weight.size(1));
  return runtime::offer_work(state, ops::work_of_product(static_cast<double>(rows), columns, depth), ops::kKernelCosts);
}

template <PrepareClamped kPrepare, runtime::KernelRun kRun, uint8_t kPriority>
using LinearKernels = ClampedKernels<signature::linear_out, signature::linear_clamp_out, kPrepare, kRun, kPriority>;

}  // namespace et::kernels::optimized::matmul
