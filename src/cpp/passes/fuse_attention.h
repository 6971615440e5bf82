#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Finds attention that is spelled out, and lets it share keys and values between heads.
///
///   softmax(q @ k.T * scale + mask) @ v   =>   scaled_dot_product_attention(q, k, v, mask, scale)
///
/// One kernel computes it without the matrix of weights, which is quadratic in the length.
///
/// Requires: Stage::kEdge, verified. An extension: the kernel is ours.
/// Ensures:  no bmm of a softmax over the last dim of a bmm with a transpose is left, when everything between them has
///           constant sizes and one use. Between them may stand views, a factor (a number), floating-point masks that
///           are added (several become their sum) or one masked_fill with -inf. All of these broadcast to the scores.
///           Keys and values that were repeated for groups of heads (unsqueeze, expand, view) are given once, with
///           enable_gqa. A constant mask that hides nothing (true everywhere, or zeros) is left out. A row whose mask
///           is -inf throughout has no defined result (NaN before, not necessarily after).
/// Cost:     O(nodes).
/// Example:  see golden/fuse_attention.ir
/// Source:   Vaswani et al., "Attention Is All You Need", 2017; groups of heads: Ainslie et al., "GQA", 2023.
class FuseAttention final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
