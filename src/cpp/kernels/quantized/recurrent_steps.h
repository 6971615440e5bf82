/// Recurrent layers whose state meets an integer weight, one direction of a layer a call: what all forms check alike,
/// and the order of their steps.
///
/// For: et::quantized_lstm and _gru (recurrent.h has their scales), et::dynamic_ and weight_only_ ones, the plain
/// kernels and faster ones of other libraries, so that all of them refuse the same calls. Not for: layers of floats
/// (kernels/portable/recurrent.h).
///
///     RecurrentShape shape;
///     ET_RETURN_IF_ERROR(prepare_steps(context, call, ScalarType::Float, &shape));   // outputs have their sizes now
///     return for_each_step(context, call, shape, reverse, [&](const RecurrentStep& step) { … });
#pragma once

#include <algorithm>

#include "kernels/quantized/affine.h"

namespace et::kernels::quantized {

/// The arguments of a call that every form has.
struct RecurrentCall {
  const char* op;
  int64_t gates;                ///< 4: LSTM, 3: GRU
  const Tensor* input;          ///< [steps, batch, gates * hidden]: the products of the inputs
  const Tensor* hidden;         ///< f32 [batch, hidden], with sizes of one in front or not; nullptr: `first` is there
  const Tensor* cell;           ///< the same; LSTM only
  const OptionalTensor* first;  ///< products of the first state: one row for all sequences, or one for each
  const Tensor* out;            ///< f32 [steps, batch, hidden]
  const Tensor* last_cell;      ///< as `cell`
};

struct RecurrentShape {
  int64_t steps = 0, batch = 0, hidden = 0;
  int64_t first_stride = 0;  ///< from a sequence's row of `first` to the next one's
};

/// Checks the arguments and gives the outputs their sizes; `first_type`: of the elements of `first`.
/// Errors: InvalidArgument, InvalidType, NotSupported; those of resize_tensor.
Error prepare_steps(KernelContext& context, const RecurrentCall& call, ScalarType first_type, RecurrentShape* shape);
/// Errors: InvalidArgument when a weight has another number of rows than the gates have units.
Error check_weight_rows(const RecurrentCall& call, const RecurrentShape& shape, int64_t rows);

/// A step of all sequences.
struct RecurrentStep {
  int64_t time;
  const float* before;  ///< [batch, hidden]; nullptr where only the products of the first state are given
  float* after;         ///< [batch, hidden]
  bool is_given;        ///< the products of the state are those of `first`
};

/// Calls take(step) -> Error for the steps in the order in which they run; none where there is nothing to compute.
/// Errors: Cancelled, and those of `take`.
template <typename Take>
Error for_each_step(KernelContext& context, const RecurrentCall& call, const RecurrentShape& shape, bool reverse,
                    const Take& take) {
  const int64_t size = shape.batch * shape.hidden;
  const float* before = call.hidden == nullptr ? nullptr : call.hidden->const_data_ptr<float>();
  auto* const out = call.out->mutable_data_ptr<float>();
  for (int64_t i = 0; size > 0 && i < shape.steps; ++i) {
    ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "%s: cancelled", call.op);
    const int64_t time = reverse ? shape.steps - 1 - i : i;
    float* const after = out + time * size;
    ET_RETURN_IF_ERROR(take(RecurrentStep{time, before, after, i == 0 && call.first->has_value()}));
    before = after;
  }
  return Error::Ok;
}

/// The cells of the step before the first, where each step finds and leaves them; nullptr for a GRU.
inline float* start_cells(const RecurrentCall& call, const RecurrentShape& shape) {
  if (call.cell == nullptr) {
    return nullptr;
  }
  auto* const cells = call.last_cell->mutable_data_ptr<float>();
  std::copy_n(call.cell->const_data_ptr<float>(), shape.batch * shape.hidden, cells);
  return cells;
}

}  // namespace et::kernels::quantized
