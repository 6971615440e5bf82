/// One function an operator (or a few alike): writes its nodes.
///
/// For: the table of op_support.cpp. What comes here has passed that table's check.
#pragma once

#include "backends/xnnpack/compiler/lowering.h"

namespace et::backends::xnnpack {

// emit_products.cpp
Error emit_convolution(Lowering& lowering, const ir::Node& node);
Error emit_linear(Lowering& lowering, const ir::Node& node);
Error emit_addmm(Lowering& lowering, const ir::Node& node);
Error emit_matmul(Lowering& lowering, const ir::Node& node);

// emit_elementwise.cpp
Error emit_binary(Lowering& lowering, const ir::Node& node);
Error emit_batch_norm(Lowering& lowering, const ir::Node& node);
Error emit_prelu(Lowering& lowering, const ir::Node& node);
Error emit_clamp(Lowering& lowering, const ir::Node& node);
Error emit_unary(Lowering& lowering, const ir::Node& node);
Error emit_hardsigmoid(Lowering& lowering, const ir::Node& node);
Error emit_silu(Lowering& lowering, const ir::Node& node);
Error emit_elu(Lowering& lowering, const ir::Node& node);
Error emit_leaky_relu(Lowering& lowering, const ir::Node& node);
Error emit_softmax(Lowering& lowering, const ir::Node& node);
Error emit_reciprocal(Lowering& lowering, const ir::Node& node);

// emit_images.cpp
/// How far the last window of a pooling with ceil_mode reaches beyond the padding. Sizes are static.
int64_t overhang(const ir::Dim& in, const ir::Dim& out, int64_t padding, int64_t window, int64_t dilation,
                 int64_t stride);
Error emit_max_pool(Lowering& lowering, const ir::Node& node);
Error emit_avg_pool(Lowering& lowering, const ir::Node& node);
Error emit_mean(Lowering& lowering, const ir::Node& node);
Error emit_resize(Lowering& lowering, const ir::Node& node);
Error emit_nearest(Lowering& lowering, const ir::Node& node);

// emit_movement.cpp
Error emit_concatenate(Lowering& lowering, const ir::Node& node);
Error emit_permute(Lowering& lowering, const ir::Node& node);
Error emit_view(Lowering& lowering, const ir::Node& node);
Error emit_slice(Lowering& lowering, const ir::Node& node);
Error emit_select(Lowering& lowering, const ir::Node& node);
Error emit_split(Lowering& lowering, const ir::Node& node);
Error emit_pad(Lowering& lowering, const ir::Node& node);
/// Joins two to five values along an axis of the format.
void join(Lowering& lowering, const ir::Node& node, uint32_t axis, const std::vector<uint32_t>& ids, uint32_t output);
/// Joins `parts` along dimension `dim` of the IR into `result`, five at a time.
Error concatenate_values(Lowering& lowering, const ir::Node& node, const std::vector<const ir::Value*>& parts,
                         const ir::Value* result, size_t dim, Form form);

}  // namespace et::backends::xnnpack
