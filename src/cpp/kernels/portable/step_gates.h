/// The arguments of et::lstm_gates and et::gru_gates, checked alike by their kernels.
#pragma once

#include <initializer_list>

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

/// What a step of a recurrent layer is given and gives.
struct StepGates {
  const char* op;
  int64_t gates;                               ///< that lie side by side in a row of `sums`, `hidden` floats each
  std::initializer_list<const Tensor*> sums;   ///< [..., gates * hidden]; sizes of one in front may be missing
  const Tensor* before;                        ///< [..., hidden]
  std::initializer_list<const Tensor*> after;  ///< get the sizes of `before`
};

struct StepSize {
  int64_t rows = 0, hidden = 0;
};

/// Checks all arguments and resizes the outputs. All are row-major f32.
///
/// Errors: InvalidArgument, InvalidType, NotSupported; those of resize_tensor.
Error prepare_step(KernelContext& context, const StepGates& step, StepSize* size);

/// The function of most gates.
float sigmoid(float x);

/// One row of et::lstm_gates: gates [4 * n], before [n] -> state [n], after [n]. `after` may be `before`.
void lstm_row(const float* gates, const float* before, float* state, float* after, int64_t n);
/// One row of et::gru_gates: input and own [3 * n], before [n] -> after [n], which may be `before`.
void gru_row(const float* input, const float* own, const float* before, float* after, int64_t n);

}  // namespace et::kernels::portable
