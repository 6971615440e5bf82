/// A copy of a graph, to be changed while the original stays.
///
/// For: backends that run passes on the part that they are given.
#pragma once

#include <memory>

#include "ir/graph.h"

namespace et::ir {

/// Copies inputs, nodes, outputs, and with the nodes their tags, sources and handles. Requires: no regions, no writes,
/// which parts of delegates do not have.
std::unique_ptr<Graph> copy_graph(const Graph& graph);

}  // namespace et::ir
