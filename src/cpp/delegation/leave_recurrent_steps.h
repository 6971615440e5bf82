/// Keeps the steps of a quantized LSTM or GRU outside of a backend, where a pass makes one operator of all of them.
///
/// For: query_support, after the backend was asked node by node. A backend takes a step as some twenty nodes, and a
/// layer as so many for each element of its sequence: 1.3 KB of payload a step.
///     linear (taken) ─▶ unbind (refused) ─▶ add, sigmoid, tanh, mul, linear, … (taken) ─▶ …
/// Not for: the product of the inputs of all steps, cells that a model calls step by step, layers whose weights are no
///          integers.
#pragma once

#include <functional>
#include <string>

#include "ir/graph.h"

namespace et::delegation {

/// `refuse(node, why)` is called for nodes of `graph` that are to be left; taken nodes carry a tag, and `refuse`
/// removes it.
void leave_recurrent_steps(ir::Graph& graph, const std::function<void(ir::Node&, std::string)>& refuse);

}  // namespace et::delegation
