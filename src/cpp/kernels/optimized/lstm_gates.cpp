// et::lstm_gates: a step's state and cell from the sums of its gates, in one pass.

#include "kernels/optimized/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/lstm_gates.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/math-inl.h"
#include "kernels/optimized/tables.h"
#include "kernels/optimized/vectors-inl.h"
#include "kernels/portable/lstm_gates.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

/// Units [begin, end) of a row of n; `after` or `state` may be `before`.
void StepUnits(const float* gates, const float* before, float* state, float* after, size_t n, size_t begin,
               size_t end) {
  const hn::ScalableTag<float> d;
  over_vectors(end - begin, [&](auto whole, size_t at, size_t left) HWY_ATTR {
    const size_t i = begin + at;
    const auto gate = [&](size_t g) HWY_ATTR { return load(d, whole, gates + g * n + i, left); };
    const auto kept = hn::Mul(sigmoid(d, gate(1)), load(d, whole, before + i, left));
    const auto value = hn::MulAdd(sigmoid(d, gate(0)), tanh(d, gate(2)), kept);
    store(d, whole, value, after + i, left);
    store(d, whole, hn::Mul(sigmoid(d, gate(3)), tanh(d, value)), state + i, left);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(StepUnits);

namespace {

Error lstm_gates_out(KernelContext& context, const Tensor& gates, const Tensor& cell, Tensor& out0, Tensor& out1) {
  portable::LstmGates shape;
  ET_RETURN_IF_ERROR(portable::prepare_lstm_gates(context, gates, cell, out0, out1, &shape));
  const auto* const in = static_cast<const float*>(gates.const_data_ptr());
  const auto* const before = static_cast<const float*>(cell.const_data_ptr());
  auto* const state = static_cast<float*>(out0.mutable_data_ptr());
  auto* const after = static_cast<float*>(out1.mutable_data_ptr());
  const auto step = HWY_DYNAMIC_POINTER(StepUnits);
  const auto n = static_cast<size_t>(shape.hidden);
  constexpr size_t kCost = 32;  // of a unit, next to a copy
  threads::parallel_for(context.pool(), static_cast<size_t>(shape.rows) * n, threads::grain_for(kCost),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end;) {
                            const size_t row = i / n * n;
                            const size_t last = end < row + n ? end - row : n;
                            step(in + 4 * row, before + row, state + row, after + row, n, i - row, last);
                            i = row + last;
                          }
                        });
  return Error::Ok;
}

/// lstm_gates(gates, cell, out0, out1): floats, row-major.
bool fits_lstm_gates(Arguments args) {
  for (const EValue* arg : args) {
    if (!is_float(*arg) || !is_row_major(*arg)) {
      return false;
    }
  }
  return true;
}

constexpr Kernel kKernels[] = {make_fitting_kernel<&lstm_gates_out, &fits_lstm_gates, 0b10>("et::lstm_gates.out")};

}  // namespace

Span<const Kernel> lstm_gates_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
