/// Decides for which quantize and dequantize nodes, and what stands between them, a backend is not the right place.
///
/// For: query_support, after the backend has judged each node. Each answer is right by itself and the whole may be
///      wrong:
///  - A backend that has no uint8 refuses the conversions and would take the operator between them in float. It stays
///  with
///    the conversions, so that they become an integer kernel:
///        dequantize (refused) ─▶ add, relu (taken) ─▶ quantize (refused)
///  - An operator that the backend does not have would run on floats between two parts. Its conversions stay with it,
///  so
///    that integers cross the borders and passes can let it work on them:
///        … ─▶ dequantize (taken) ─▶ unbind (refused) ─▶ quantize (taken) ─▶ …
///    So do a product with integer weights that the backend has not (4 bits in a convolution), its clamps and its
///    conversions.
///  - Scales that are chosen at run time are part of the product behind them, and stay where it stays.
/// Not for: weights, whose dequantize goes where the weight goes.
#pragma once

#include <functional>
#include <string>

#include "ir/graph.h"

namespace et::delegation {

/// `refuse(node, why)` is called for nodes of `graph` that are to be left; taken nodes carry a tag, and `refuse`
/// removes it.
void leave_conversions(ir::Graph& graph, const std::function<void(ir::Node&, std::string)>& refuse);

/// True when every use of a result is a quantize, straight or behind clamps.
bool becomes_integers(const ir::Value* result);

}  // namespace et::delegation
