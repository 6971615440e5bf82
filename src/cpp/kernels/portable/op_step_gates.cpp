// What a step of a recurrent layer does when its products are there: the gates' functions and the new state.
#include "kernels/portable/op_step_gates.h"

#include "kernels/portable/step_gates.h"

namespace et::kernels::portable {

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
    gru_row(in, own, before, after, n);
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
    lstm_row(in, before, state, after, n);
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
