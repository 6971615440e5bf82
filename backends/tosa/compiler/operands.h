/// Operands of operators that work element by element, brought to one form and one rank.
///
/// For: emit_elementwise.cpp, float_elementwise.cpp.
#pragma once

#include "backends/tosa/compiler/lowering.h"

namespace et::backends::tosa::compiler {

struct Operands {
  std::vector<TensorId> ids;
  Form form = Form::kRowMajor;
  Shape shape;  ///< of the result, in that form
};

/// The node's arguments at these positions: tensors, and numbers, which become tensors of one element and of the type
/// of the first tensor that has floats.
Operands operands_of(Lowering& lowering, const ir::Node& node, const std::vector<size_t>& positions);

}  // namespace et::backends::tosa::compiler
