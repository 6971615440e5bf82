/// Quantized recurrent layers (et::quantized_lstm, et::quantized_gru): the arguments of a call, checked, and its scales as floats.
///
/// For: the plain kernels (op_recurrent.cpp) and faster ones of other libraries, so that all of them refuse the same calls and compute
/// with the same numbers. Not for: layers of floats (kernels/portable/recurrent.h).
///
/// A layer is the products of its inputs, which one product made for all steps, and then step by step what docs/numerics.md says: the
/// state before is quantized, multiplied by the weight, the gates' functions are of floats.
///
///     RecurrentPlan plan;
///     ET_RETURN_IF_ERROR(prepare_recurrent(context, call, &plan));   // outputs have their sizes now
#pragma once

#include "kernels/quantized/affine.h"
#include "kernels/quantized/fixed_point_sum.h"
#include "kernels/quantized/weights.h"

namespace et::kernels::quantized {

/// The arguments of a call, as the operator has them.
struct RecurrentCall {
  const char* op;
  int64_t gates;        ///< 4: LSTM, 3: GRU
  const Tensor* input;  ///< [steps, batch, gates * hidden] of 8 or 16-bit integers
  double input_scale;
  int64_t input_zero_point;
  const Tensor* hidden;  ///< f32 [batch, hidden], with sizes of one in front or not; nullptr: `first` is there
  const Tensor* cell;    ///< the same; LSTM only
  double hidden_scale;
  int64_t hidden_zero_point, hidden_min, hidden_max;
  const Tensor* weight;  ///< [gates * hidden, hidden]
  const Tensor* weight_scales;
  const OptionalTensor* bias;
  /// Products of the first step, which then are not computed: one row for all sequences, or one for each. LSTM: integers of `product`;
  /// GRU: f32.
  const OptionalTensor* first;
  OutputParameters product;
  OutputParameters sum;  ///< LSTM only
  const Tensor* out;     ///< f32 [steps, batch, hidden]
  const Tensor* last_cell;
};

/// x = (q - zero_point) * scale, in float.
struct Dequantizer {
  float scale = 1, zero_point = 0;
  float operator()(int32_t q) const { return (static_cast<float>(q) - zero_point) * scale; }
};

/// q = clamp(round(x * inverse) + zero_point, low, high), of NaN 0.
struct StateQuantizer {
  float inverse = 1, zero_point = 0, low = 0, high = 0;
  int32_t operator()(float x) const {
    const float shifted = round_to_even(x * inverse) + zero_point;
    const float bounded = shifted < low ? low : shifted > high ? high : shifted;
    return std::isnan(bounded) ? 0 : static_cast<int32_t>(bounded);
  }
};

/// What a kernel computes with.
struct RecurrentPlan {
  int64_t steps = 0, batch = 0, hidden = 0;
  int64_t first_stride = 0;  ///< from a sequence's row of `first` to the next one's
  Dequantizer input;         ///< of the products of the inputs
  StateQuantizer state;
  int32_t state_zero_point = 0;
  Requantizer product;
  ProductScales scales;
  Dequantizer products;
  Requantizer sum;
  Dequantizer sums;
  bool is_fixed = false;  ///< sums are those of `fixed`, else of floats
  FixedPointSum fixed;
  float product_units = 0, input_units = 0;  ///< of a sum's scale
};

/// Checks all arguments and gives the outputs their sizes. Errors: InvalidArgument, InvalidType, NotSupported; those of resize_tensor.
Error prepare_recurrent(KernelContext& context, const RecurrentCall& call, RecurrentPlan* plan);

}  // namespace et::kernels::quantized
