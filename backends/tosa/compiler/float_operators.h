/// Operators of the profile FP: floats of 32 and 16 bits as they are in an Edge program.
///
/// For: op_support.cpp, whose table they extend. What moves elements and takes the largest of a window is the same for
/// integers and stands there. One file a family; each row has its check and its emitter beside it.
#pragma once

#include "backends/tosa/compiler/arithmetic.h"
#include "backends/tosa/compiler/op_support.h"
#include "base/span.h"

namespace et::backends::tosa::compiler {

Span<const OperatorRow> float_elementwise_operators();
Span<const OperatorRow> float_product_operators();
Span<const OperatorRow> float_reduction_operators();
Span<const OperatorRow> float_pool_operators();

/// Shares along an axis, computed in 32 bits.
TensorId softmax_of(Arithmetic& in, TensorId x, int32_t axis);

}  // namespace et::backends::tosa::compiler
