#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Joins a depthwise convolution with the convolutions of 1x1 around it, so that the images between them stay in the
/// cache.
///
/// Requires: Stage::kEdge, verified, dim orders final. An extension: the fused operator is ours.
/// Ensures:  a depthwise convolution of 3x3 or 5x5 whose only reader is a convolution of 1x1 is one
///           et::separable_convolution with it. A convolution of 1x1 before it joins them where the depthwise one is
///           its only reader. Images are floats with channels innermost and sizes that do not change. Filters are
///           constant, strides are 1 or 2, there is no dilation, and tags are equal. Clamps that fuse-activation left
///           are included. Only where the largest image that is saved has 1 MiB or more: smaller ones stay in the cache
///           as they are, and a library's products are faster there (docs/design/kernels.md).
/// Cost:     O(nodes).
/// Example:  %e = et::convolution_clamp(%x, %we, …); %d = et::convolution_clamp(%e, %wd, …); %y = aten::convolution(%d,
///           %wp, …) => %y = et::separable_convolution(%x, %we, …, %wd, …, %wp, …)
class FuseSeparableConvolution final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
