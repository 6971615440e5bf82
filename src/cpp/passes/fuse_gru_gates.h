#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Finds what a step of a GRU does between its two products and its new state, spelled out, as in layers that are taken
/// apart for quantization and in cells that a program calls.
///
///   ir, iz, in = split(input);  hr, hz, hn = split(hidden);  r = sigmoid(ir + hr);  z = sigmoid(iz + hz)
///   n = tanh(in + r * hn);  h' = n + z * (h - n), or (1 - z) * n + z * h
///   =>   h' = gru_gates(input, hidden, h)
///
/// Requires: Stage::kEdge, verified. An extension: the operator is ours.
/// Ensures:  sums that are quantized before they are split are dequantized once, in one piece. Gates of a first step
///           that are constants, because its state is, become one constant. Both forms of h' are computed as the first:
///           they differ by roundings.
/// Cost:     O(nodes).
/// Example:  see golden/fuse_gru_gates.ir
/// Source:   Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014; order of the gates and the
///           place of the reset gate: torch.nn.GRU.
class FuseGruGates final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
