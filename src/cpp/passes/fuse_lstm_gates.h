#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Finds what a step of an LSTM does with its gates, spelled out, as in layers that are taken apart for quantization
/// and in cells that a program calls.
///
///   i, f, g, o = split(gates);  c' = sigmoid(f) * c + sigmoid(i) * tanh(g);  h' = sigmoid(o) * tanh(c')
///   =>   h', c' = lstm_gates(gates, c)
///
/// Requires: Stage::kEdge, verified. An extension: the operator is ours.
/// Ensures:  gates that are quantized before they are split are dequantized once, in one piece.
/// Cost:     O(nodes).
/// Example:  see golden/fuse_lstm_gates.ir
/// Source:   Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; order of the gates: torch.nn.LSTM.
class FuseLstmGates final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
