// et::lstm_gates and et::gru_gates: a step's new state from the sums of its gates, in one pass.

#include "kernels/optimized/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimized/step_gates.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/math-inl.h"
#include "kernels/optimized/table.h"
#include "kernels/optimized/vectors-inl.h"
#include "kernels/portable/step_gates.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized {
namespace HWY_NAMESPACE {

/// Units [begin, end) of a row of n; `after` or `state` may be `before`.
void LstmUnits(const float* gates, const float* before, float* state, float* after, size_t n, size_t begin,
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

/// The same; `after` may be `before`.
void GruUnits(const float* input, const float* hidden, const float* before, float* after, size_t n, size_t begin,
              size_t end) {
  const hn::ScalableTag<float> d;
  over_vectors(end - begin, [&](auto whole, size_t at, size_t left) HWY_ATTR {
    const size_t i = begin + at;
    const auto gate = [&](const float* from, size_t g) HWY_ATTR { return load(d, whole, from + g * n + i, left); };
    const auto reset = sigmoid(d, hn::Add(gate(hidden, 0), gate(input, 0)));
    const auto update = sigmoid(d, hn::Add(gate(hidden, 1), gate(input, 1)));
    const auto candidate = tanh(d, hn::MulAdd(gate(hidden, 2), reset, gate(input, 2)));
    const auto difference = hn::Sub(load(d, whole, before + i, left), candidate);
    store(d, whole, hn::MulAdd(difference, update, candidate), after + i, left);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace et::kernels::optimized
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized {

HWY_EXPORT(LstmUnits);
HWY_EXPORT(GruUnits);

namespace {

/// Calls step(first element of a row, begin, end) for the units [begin, end) of each row, on several threads.
template <typename Step>
void over_units(KernelContext& context, const portable::StepSize& size, const Step& step) {
  constexpr size_t kCost = 32;  // of a unit, next to a copy
  const auto n = static_cast<size_t>(size.hidden);
  threads::parallel_for(context.pool(), static_cast<size_t>(size.rows) * n, threads::grain_for(kCost),
                        [&](size_t begin, size_t end) {
                          for (size_t i = begin; i < end;) {
                            const size_t row = i / n * n;
                            const size_t last = end < row + n ? end - row : n;
                            step(row, i - row, last);
                            i = row + last;
                          }
                        });
}

Error lstm_gates_out(KernelContext& context, const Tensor& gates, const Tensor& cell, Tensor& out0, Tensor& out1) {
  portable::StepSize size;
  ET_RETURN_IF_ERROR(portable::prepare_step(context, {"et::lstm_gates", 4, {&gates}, &cell, {&out0, &out1}}, &size));
  const auto* const in = static_cast<const float*>(gates.const_data_ptr());
  const auto* const before = static_cast<const float*>(cell.const_data_ptr());
  auto* const state = static_cast<float*>(out0.mutable_data_ptr());
  auto* const after = static_cast<float*>(out1.mutable_data_ptr());
  const auto units = HWY_DYNAMIC_POINTER(LstmUnits);
  const auto n = static_cast<size_t>(size.hidden);
  over_units(context, size, [&](size_t row, size_t begin, size_t end) {
    units(in + 4 * row, before + row, state + row, after + row, n, begin, end);
  });
  return Error::Ok;
}

Error gru_gates_out(KernelContext& context, const Tensor& input, const Tensor& hidden, const Tensor& state,
                    Tensor& out) {
  portable::StepSize size;
  ET_RETURN_IF_ERROR(portable::prepare_step(context, {"et::gru_gates", 3, {&input, &hidden}, &state, {&out}}, &size));
  const auto* const in = static_cast<const float*>(input.const_data_ptr());
  const auto* const own = static_cast<const float*>(hidden.const_data_ptr());
  const auto* const before = static_cast<const float*>(state.const_data_ptr());
  auto* const after = static_cast<float*>(out.mutable_data_ptr());
  const auto units = HWY_DYNAMIC_POINTER(GruUnits);
  const auto n = static_cast<size_t>(size.hidden);
  over_units(context, size, [&](size_t row, size_t begin, size_t end) {
    units(in + 3 * row, own + 3 * row, before + row, after + row, n, begin, end);
  });
  return Error::Ok;
}

/// All tensors are of floats and row-major.
bool fits_step(Arguments args) {
  for (const EValue* arg : args) {
    if (!is_float(*arg) || !is_row_major(*arg)) {
      return false;
    }
  }
  return true;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&gru_gates_out, &fits_step, 0b100>("et::gru_gates.out"),
    make_fitting_kernel<&lstm_gates_out, &fits_step, 0b10>("et::lstm_gates.out"),
};

}  // namespace

ET_KERNEL_TABLE(step_gates, kKernels)

}  // namespace et::kernels::optimized
#endif  // HWY_ONCE
