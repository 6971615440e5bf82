#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Makes one operator of a loop whose turns are the steps of a quantized LSTM or GRU in one direction:
///
///   states, c = scan([h, c], [products of the inputs]) { (h, c, item): a step }
///
///   product = quantized_linear(quantize(h))
///   LSTM:  h, c = lstm_gates(dequantize(quantized_add(product, quantize(item))), c)
///   GRU:   h = gru_gates(item, dequantize(product), h)
///   =>
///   LSTM:  states, c = quantized_lstm(products of the inputs, h, c, …)
///   GRU:   states = quantized_gru(products of the inputs, h, …)
///
/// Steps of floats whose product is dynamic_linear(h) or weight_only_linear(h) become dynamic_lstm, weight_only_gru and
/// so on:
///     LSTM:  h, c = lstm_gates(product + item, c)
///     GRU:   h = gru_gates(item, product, h)
///
/// A loop over flipped items whose states are flipped again runs backwards.
///
/// Requires: Stage::kEdge, verified; after fuse-lstm-gates, fuse-gru-gates and fuse-quantized. An extension: the
///           operator is ours.
/// Ensures:  the integers and floats of every step stay the same; integers have 8 bits. A last state that is
///           read is a part of the operator's result.
/// Cost:     O(nodes).
/// Example:  see golden/fuse_recurrent_steps.ir
class FuseRecurrentSteps final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
