#pragma once

#include "passes/pass.h"

namespace et::passes {

/// Lets image operators run with channels innermost, and converts at the borders of such regions only.
///
/// Kernels take images in either order: fast convolution, pooling and resizing compute with channels innermost, and
/// transpose a row-major image before and after. Operators that treat all elements alike (pointwise, cat, padding, …)
/// do not mind. So values that such operators connect form a region. A region turns channels-last when its borders
/// transpose fewer bytes than its convolutions and poolings would. It does for as many bytes where it has a convolution
/// that is slower in planes. One with a convolution of integers always does, as fast kernels of these take no other
/// order.
///
/// Requires: Stage::kEdge, verified, row-major. An extension. Does nothing without PassOptions::channels_last.
/// Ensures:  within a region, images (ranks 3 to 5, [batch, channels, spatial…]) have dim_order 0, 2, …, 1. A value
///           that enters or leaves is converted once, by dim_order_ops::_clone_dim_order; the copy of an input that
///           has its channels innermost already is not converted back. Outputs, other inputs, constants (filters are
///           the kernels' business), state and what regions of control flow share stay row-major.
/// Cost:     O(nodes + uses).
/// Example:  conv, relu, conv, add between an input and a view: one conversion after the input, one before the view.
class PropagateDimOrder final : public Pass {
 public:
  PassInfo info() const override;
  Result<Changed> run(ir::Graph& graph, PassContext& context) override;
};

}  // namespace et::passes
