/// Keeps functions that a model wrote out in one piece, outside of a backend that would compute them operator by
/// operator.
///
/// For: query_support, after the backend was asked node by node. A GELU whose cube the backend does not have would be
/// cut into parts, and passes that make one operator of it (recognise-activations, recognise-norms) would find none:
///     mul (taken) ─▶ pow (refused) ─▶ mul, add, tanh, … (taken)
/// One that it takes whole is as many passes over the data as it has operators, which costs more than to leave the
/// backend once. Not for: those of up to three operators (x * sigmoid(x)) and of images that it takes whole; they stay
/// with what is around them.
#pragma once

#include <functional>
#include <string>

#include "ir/graph.h"

namespace et::delegation {

/// `refuse(node, why)` is called for nodes of `graph` that are to be left; taken nodes carry a tag, and `refuse`
/// removes it.
void leave_written_out(ir::Graph& graph, const ir::Program& program,
                       const std::function<void(ir::Node&, std::string)>& refuse);

}  // namespace et::delegation
