/// Statically quantized recurrent layers (et::quantized_lstm, et::quantized_gru): the scales of a call, checked and as
/// floats.
///
/// For: the plain kernels (op_recurrent.cpp) and faster ones of other libraries, so that all of them refuse the same
/// calls and compute with the same numbers. Not for: what layers that quantize at run time have, too
/// (recurrent_steps.h).
///
/// A layer is the products of its inputs, which one product made for all steps, and then step by step what
/// docs/reference/numerics.md says. The state before is quantized and multiplied by the weight; the gates' functions
/// are of floats.
///
///     RecurrentPlan plan;
///     ET_RETURN_IF_ERROR(prepare_recurrent(context, call, &plan));   // outputs have their sizes now
#pragma once

#include "kernels/quantized/fixed_point_sum.h"
#include "kernels/quantized/recurrent_steps.h"
#include "kernels/quantized/weights.h"

namespace et::kernels::quantized {

/// The arguments of a call. The input has 8 or 16-bit integers; `first` has those of `product` (LSTM) or floats (GRU).
struct QuantizedRecurrentCall : RecurrentCall {
  double input_scale;
  int64_t input_zero_point;
  OutputParameters state;  ///< what the hidden state is quantized with
  const Tensor* weight;    ///< [gates * hidden, hidden]
  const Tensor* weight_scales;
  const OptionalTensor* bias;
  OutputParameters product;
  OutputParameters sum;  ///< LSTM only
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
struct RecurrentPlan : RecurrentShape {
  Dequantizer input;  ///< of the products of the inputs
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

  /// The sum of two integers as et::quantized_add has it.
  int32_t add(int32_t own, int32_t given) const {
    if (is_fixed) {
      const int32_t wide = multiply_add(multiply_add(fixed.bias, own, fixed.a_factor), given, fixed.b_factor);
      return sum.clamp(int64_t{wide >> fixed.shift} + sum.zero_point());
    }
    return sum((static_cast<float>(own) - products.zero_point) * product_units +
               (static_cast<float>(given) - input.zero_point) * input_units);
  }
};

/// Checks all arguments and gives the outputs their sizes. Errors: InvalidArgument, InvalidType, NotSupported; those of
/// resize_tensor.
Error prepare_recurrent(KernelContext& context, const QuantizedRecurrentCall& call, RecurrentPlan* plan);

}  // namespace et::kernels::quantized
