#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Makes one operator of all steps of a quantized LSTM or GRU in one direction. They are the turns of a loop, or stand
/// one behind the other:
///
///   states, c = scan([h, c], [products of the inputs]) { (h, c, part): a step as below }
///
///   parts = unbind(products of the inputs)
///   for each part, first to last or last to first:
///     product = quantized_linear(quantize(h))
///     LSTM:  h, c = lstm_gates(dequantize(quantized_add(product, part)), c)
///     GRU:   h = gru_gates(dequantize(part), dequantize(product), h)
///   =>
///   LSTM:  states, c = quantized_lstm(products of the inputs, h, c, …)
///   GRU:   states = quantized_gru(products of the inputs, h, …)
///
/// Steps of floats whose product is dynamic_linear(h) or weight_only_linear(h) become dynamic_lstm, weight_only_gru and
/// so on:
///     LSTM:  h, c = lstm_gates(product + part, c)
///     GRU:   h = gru_gates(part, product, h)
///
/// The first step may have its product from elsewhere: of a state that is zero it is a constant.
///
/// Requires: Stage::kEdge, verified; after fuse-lstm-gates, fuse-gru-gates and fuse-quantized. An extension: the
///           operator is ours.
/// Ensures:  the integers and floats of every step stay the same. Taken together are steps that have one weight, one
///           bias and one set of scales, of 8 bits, or that choose their scales in one way. A state that somebody reads
///           is a part of the operator's result; where they are put together in the order of time, that is the result
///           itself.
/// Cost:     O(nodes), and a comparison of the steps' constants.
/// Example:  see golden/fuse_recurrent_steps.ir
class FuseRecurrentSteps final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
