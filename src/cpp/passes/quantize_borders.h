/// Lets methods take and give the integers that their floats at the border stand for.
#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Requires: Stage::kEdge, verified. Does nothing unless PassOptions::quantized_io.
/// Ensures:  an input of f32 that is only quantized, with one scale and everywhere the same way, is an input of those
///           integers, also where it is first copied to another dim order. An output that dequantizes with one scale is
///           an output of the integers. Others stay; so do inputs that the method writes, and integers that are an
///           input, a constant or another output already. For input i of method m the program has the constant method
///           "m.input.i", for output i "m.output.i", which return scale, zero point, smallest and largest integer.
/// Errors:   InvalidArgument, a method in which nothing could be changed.
/// Cost:     O(inputs + outputs).
/// Example:  method @m(%x: f32[4]) { %q = quantize_per_tensor(%x, 0.5, 3, …) … }   =>   method @m(%x: i8[4]) { … }
class QuantizeBorders final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
