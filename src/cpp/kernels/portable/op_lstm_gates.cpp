// What a step of an LSTM does when its products are there: the gates' functions, the new cell, the new state.
// Source of the cell: the documentation of torch.nn.LSTM.
#include "kernels/portable/op_lstm_gates.h"

#include <cmath>

#include "kernels/portable/lstm_gates.h"

namespace et::kernels::portable {

Error lstm_gates_out(KernelContext& context, const Tensor& gates, const Tensor& cell, Tensor& out0, Tensor& out1) {
  LstmGates shape;
  ET_RETURN_IF_ERROR(prepare_lstm_gates(context, gates, cell, out0, out1, &shape));
  const auto sigmoid = [](float x) { return 1.0f / (1.0f + std::exp(-x)); };
  const auto* in = static_cast<const float*>(gates.const_data_ptr());
  const auto* before = static_cast<const float*>(cell.const_data_ptr());
  auto* state = static_cast<float*>(out0.mutable_data_ptr());
  auto* after = static_cast<float*>(out1.mutable_data_ptr());
  const int64_t n = shape.hidden;
  for (int64_t row = 0; row < shape.rows; ++row, in += 4 * n, before += n, state += n, after += n) {
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
