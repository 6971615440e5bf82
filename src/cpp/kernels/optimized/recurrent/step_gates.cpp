// et::lstm_gates and et::gru_gates: a step's new state from the sums of its gates, in one pass.

#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>

#include "kernels/optimized/recurrent/step_gates.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "kernels/portable/step_gates.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::recurrent::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

/// Units [begin, end) of row r.
void LstmUnits(const LstmRows& s, size_t r, size_t begin, size_t end) {
  const hn::ScalableTag<float> d;
  const size_t n = s.hidden;
  over_vectors(end - begin, [&](auto whole, size_t at, size_t left) HWY_ATTR {
    const size_t i = r * n + begin + at;
    const auto gate = [&](size_t g) HWY_ATTR {
      const size_t place = (4 * r + g) * n + begin + at;
      const auto sum = load(d, whole, s.gates + place, left);
      return s.added == nullptr ? sum : hn::Add(sum, load(d, whole, s.added + place, left));
    };
    const auto kept = hn::Mul(sigmoid(d, gate(1)), load(d, whole, s.before + i, left));
    const auto value = hn::MulAdd(sigmoid(d, gate(0)), tanh(d, gate(2)), kept);
    const auto open = sigmoid(d, gate(3));
    store(d, whole, value, s.after + i, left);
    store(d, whole, hn::Mul(open, tanh(d, value)), s.state + i, left);
  });
}

void GruUnits(const GruRows& s, size_t r, size_t begin, size_t end) {
  const hn::ScalableTag<float> d;
  const size_t n = s.hidden;
  over_vectors(end - begin, [&](auto whole, size_t at, size_t left) HWY_ATTR {
    const size_t i = r * n + begin + at;
    const auto gate = [&](const float* from, size_t g)
                          HWY_ATTR { return load(d, whole, from + (3 * r + g) * n + begin + at, left); };
    const auto reset = sigmoid(d, hn::Add(gate(s.own, 0), gate(s.input, 0)));
    const auto update = sigmoid(d, hn::Add(gate(s.own, 1), gate(s.input, 1)));
    const auto candidate = tanh(d, hn::MulAdd(gate(s.own, 2), reset, gate(s.input, 2)));
    const auto difference = hn::Sub(load(d, whole, s.before + i, left), candidate);
    store(d, whole, hn::MulAdd(difference, update, candidate), s.after + i, left);
  });
}

}  // namespace et::kernels::optimized::recurrent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::recurrent {

HWY_EXPORT(LstmUnits);
HWY_EXPORT(GruUnits);

namespace {

/// Calls units(row, begin, end) for the units [begin, end) of each row, on several threads.
template <typename Units>
void over_units(threads::ThreadPool* pool, const GateRows& size, const Units& units) {
  constexpr size_t kCost = 32;  // of a unit, next to a copy
  const size_t n = size.hidden;
  threads::parallel_for(pool, size.rows * n, threads::grain_for(kCost), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end;) {
      const size_t row = i / n, last = std::min(end - row * n, n);
      units(row, i - row * n, last);
      i = row * n + last;
    }
  });
}

GateRows rows_of(const portable::StepSize& size) {
  return {static_cast<size_t>(size.rows), static_cast<size_t>(size.hidden)};
}
const float* floats(const Tensor& tensor) { return static_cast<const float*>(tensor.const_data_ptr()); }
float* floats(Tensor& tensor) { return static_cast<float*>(tensor.mutable_data_ptr()); }

Error lstm_gates_out(KernelContext& context, const Tensor& gates, const Tensor& cell, Tensor& out0, Tensor& out1) {
  portable::StepSize size;
  ET_RETURN_IF_ERROR(portable::prepare_step(context, {"et::lstm_gates", 4, {&gates}, &cell, {&out0, &out1}}, &size));
  step_rows(context.pool(), LstmRows{rows_of(size), floats(gates), nullptr, floats(cell), floats(out0), floats(out1)});
  return Error::Ok;
}

Error gru_gates_out(KernelContext& context, const Tensor& input, const Tensor& hidden, const Tensor& state,
                    Tensor& out) {
  portable::StepSize size;
  ET_RETURN_IF_ERROR(portable::prepare_step(context, {"et::gru_gates", 3, {&input, &hidden}, &state, {&out}}, &size));
  step_rows(context.pool(), GruRows{rows_of(size), floats(input), floats(hidden), floats(state), floats(out)});
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

void step_rows(threads::ThreadPool* pool, const LstmRows& step) {
  over_units(pool, step, [&, units = HWY_DYNAMIC_POINTER(LstmUnits)](size_t row, size_t begin, size_t end) {
    units(step, row, begin, end);
  });
}

void step_rows(threads::ThreadPool* pool, const GruRows& step) {
  over_units(pool, step, [&, units = HWY_DYNAMIC_POINTER(GruUnits)](size_t row, size_t begin, size_t end) {
    units(step, row, begin, end);
  });
}

ET_KERNEL_TABLE(step_gates, kKernels)

}  // namespace et::kernels::optimized::recurrent
#endif  // HWY_ONCE
