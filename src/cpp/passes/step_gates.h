/// What passes share that look for the gates of a recurrent layer's step: the tensor that a step splits into its gates.
///
/// For: fuse-lstm-gates, fuse-gru-gates. Not for: rewriting in general, which is rewrite.h's.
///
///     // In the pattern:  i = dequantize?(split(sums, _, -1)#0, scale, zero_point, quant_min, quant_max, dtype)
///     if (are_gates(m, {"i", "f", "g", "o"}, state)) gates_before(m, {"i", "f", "g", "o"}, node);
#pragma once

#include "base/span.h"
#include "ir/pattern.h"
#include "passes/quantized_values.h"

namespace et::passes {

/// Captures of gates, in the order in which they stand side by side.
using Gates = Span<const std::string_view>;

/// Rows of floats that are all parts of one split, one row for each row of the state; sizes of one in front may be
/// missing. Parts of integers are dequantized.
bool are_gates(const ir::Match& match, Gates gates, const ir::TensorType& state);

/// The sums that the gates are parts of, in float, dequantized in one piece before `before`.
ir::Value* gates_before(const ir::Match& match, Gates gates, const ir::Node& before);

}  // namespace et::passes
