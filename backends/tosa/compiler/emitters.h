/// One function an operator (or a few alike): writes its TOSA operators.
///
/// For: the table of op_support.cpp. What comes here has passed that table's check.
#pragma once

#include "backends/tosa/compiler/lowering.h"

namespace et::backends::tosa::compiler {

// emit_products.cpp
Error emit_convolution(Lowering& lowering, const ir::Node& node);
Error emit_linear(Lowering& lowering, const ir::Node& node);
Error emit_matmul(Lowering& lowering, const ir::Node& node);

// emit_elementwise.cpp
Error emit_add(Lowering& lowering, const ir::Node& node);
Error emit_sub(Lowering& lowering, const ir::Node& node);
Error emit_mul(Lowering& lowering, const ir::Node& node);
Error emit_table(Lowering& lowering, const ir::Node& node);

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
Error emit_concatenate(Lowering& lowering, const ir::Node& node);
Error emit_pad(Lowering& lowering, const ir::Node& node);
Error emit_expand(Lowering& lowering, const ir::Node& node);

}  // namespace et::backends::tosa::compiler
