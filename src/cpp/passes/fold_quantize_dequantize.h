#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Removes what dequantizes only to quantize again.
///
/// Requires: Stage::kEdge, verified.
/// Ensures:  no quantize of a dequantize with the same parameters and tag is left when no value can be outside
///           [quant_min, quant_max]. That range is the dtype's, or the integers come from quantize nodes with these
///           parameters, through operators that only move elements. (The other order, dequantize of quantize, rounds
///           and must stay. Quantized constants are fold-constants' work.)
/// Cost:     O(nodes).
/// Example:  %d = dequantize(%q, 0.1, 3, -128, 127, 1); %r = quantize(%d, 0.1, 3, -128, 127, 1); op(%r)   =>   op(%q)
class FoldQuantizeDequantize final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
