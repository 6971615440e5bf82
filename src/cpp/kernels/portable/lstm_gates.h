/// The arguments of et::lstm_gates, checked alike by its kernels.
#pragma once

#include "kernels/portable/shape.h"

namespace et::kernels::portable {

/// Rows of four gates of `hidden` floats each: in, forget, candidate, out.
struct LstmGates {
  int64_t rows = 0, hidden = 0;
};

/// Checks all arguments and gives the outputs the sizes of `cell`.
///
/// Shapes: gates [..., 4 * hidden], cell [..., hidden], row-major. DTypes: f32.
/// Errors: InvalidArgument, InvalidType, NotSupported; those of resize_tensor.
Error prepare_lstm_gates(KernelContext& context, const Tensor& gates, const Tensor& cell, const Tensor& hidden_out,
                         const Tensor& cell_out, LstmGates* shape);

}  // namespace et::kernels::portable
