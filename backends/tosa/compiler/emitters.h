/// One function an operator (or a few alike): writes its TOSA operators.
///
/// For: the table of op_support.cpp. What comes here has passed that table's check.
#pragma once

#include "backends/tosa/compiler/lowering.h"
#include "backends/tosa/compiler/op_support.h"
#include "base/span.h"
#include "numerics/integer_norm.h"

namespace et::backends::tosa::compiler {

// emit_products.cpp
Error emit_convolution(Lowering& lowering, const ir::Node& node);
Error emit_linear(Lowering& lowering, const ir::Node& node);
Error emit_matmul(Lowering& lowering, const ir::Node& node);

// emit_elementwise.cpp
Error emit_add(Lowering& lowering, const ir::Node& node);
Error emit_sub(Lowering& lowering, const ir::Node& node);
/// Of a quantized_add or _sub of 16 bits: a RESCALE of each operand and one of their sum; nothing where RESCALE has
/// none.
struct WideSumRescales {
  Rescale a, b, back;
};
std::optional<WideSumRescales> wide_sum_of(const ir::Node& node);
Error emit_mul(Lowering& lowering, const ir::Node& node);
Error emit_dequantize(Lowering& lowering, const ir::Node& node);
Error emit_requantize(Lowering& lowering, const ir::Node& node);
Error emit_table(Lowering& lowering, const ir::Node& node);

// emit_norms.cpp
Error emit_softmax(Lowering& lowering, const ir::Node& node);
Error emit_layer_norm(Lowering& lowering, const ir::Node& node);
/// Rows of a et::quantized_layer_norm, and what becomes of them.
IntegerNorm norm_of(const ir::Node& node);
NormOutput norm_output_of(const ir::Program& program, const ir::Node& node, const IntegerNorm& norm);

// emit_pools.cpp
Error emit_max_pool(Lowering& lowering, const ir::Node& node);
Error emit_avg_pool(Lowering& lowering, const ir::Node& node);
Error emit_adaptive_pool(Lowering& lowering, const ir::Node& node);
Error emit_mean(Lowering& lowering, const ir::Node& node);

// emit_movement.cpp
Error emit_view(Lowering& lowering, const ir::Node& node);
Error emit_permute(Lowering& lowering, const ir::Node& node);
Error emit_slice(Lowering& lowering, const ir::Node& node);
Error emit_select(Lowering& lowering, const ir::Node& node);
Error emit_split(Lowering& lowering, const ir::Node& node);
Error emit_flip(Lowering& lowering, const ir::Node& node);
Error emit_unbind(Lowering& lowering, const ir::Node& node);
Error emit_stack(Lowering& lowering, const ir::Node& node);
Error emit_concatenate(Lowering& lowering, const ir::Node& node);
Error emit_pad(Lowering& lowering, const ir::Node& node);
Error emit_pixel_shuffle(Lowering& lowering, const ir::Node& node);
Error emit_expand(Lowering& lowering, const ir::Node& node);

/// resizing.cpp, which has the checks, too.
Span<const OperatorRow> resizing_operators();

}  // namespace et::backends::tosa::compiler
