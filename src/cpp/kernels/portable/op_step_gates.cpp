// What a step of a recurrent layer does when its products are there: the gates' functions and the new state.
// Source of the cells: the documentation of torch.nn.LSTM and GRU.
#include "kernels/portable/op_step_gates.h"

#include <cmath>

#include "kernels/portable/step_gates.h"

namespace et::kernels::portable {
namespace {

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

}  // namespace

Error gru_gates_out(KernelContext& context, const Tensor& input, const Tensor& hidden, const Tensor& state,
                    Tensor& out) {
  StepSize size;
  ET_RETURN_IF_ERROR(prepare_step(context, {"et::gru_gates", 3, {&input, &hidden}, &state, {&out}}, &size));
  const auto* in = static_cast<const float*>(input.const_data_ptr());
  const auto* own = static_cast<const float*>(hidden.const_data_ptr());
  const auto* before = static_cast<const float*>(state.const_data_ptr());
  auto* after = static_cast<float*>(out.mutable_data_ptr());
  const int64_t n = size.hidden;
  for (int64_t row = 0; row < size.rows; ++row, in += 3 * n, own += 3 * n, before += n, after += n) {
    for (int64_t j = 0; j < n; ++j) {
      const float reset = sigmoid(own[j] + in[j]);
      const float update = sigmoid(own[n + j] + in[n + j]);
      const float candidate = std::tanh(in[2 * n + j] + own[2 * n + j] * reset);
      after[j] = (before[j] - candidate) * update + candidate;
    }
  }
  return Error::Ok;
}

Error lstm_gates_out(KernelContext& context, const Tensor& gates, const Tensor& cell, Tensor& out0, Tensor& out1) {
  StepSize size;
  ET_RETURN_IF_ERROR(prepare_step(context, {"et::lstm_gates", 4, {&gates}, &cell, {&out0, &out1}}, &size));
  const auto* in = static_cast<const float*>(gates.const_data_ptr());
  const auto* before = static_cast<const float*>(cell.const_data_ptr());
  auto* state = static_cast<float*>(out0.mutable_data_ptr());
  auto* after = static_cast<float*>(out1.mutable_data_ptr());
  const int64_t n = size.hidden;
  for (int64_t row = 0; row < size.rows; ++row, in += 4 * n, before += n, state += n, after += n) {
    for (int64_t j = 0; j < n; ++j) {
      const float kept = sigmoid(in[n + j]) * before[j];
      const float value = kept + sigmoid(in[j]) * std::tanh(in[2 * n + j]);
      after[j] = value;
      state[j] = sigmoid(in[3 * n + j]) * std::tanh(value);
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
