/// Copies of nodes and graphs, to be changed while the originals stay.
///
/// For: backends that run passes on the part that they are given, and what cuts such a part out.
#pragma once

#include <functional>
#include <memory>

#include "ir/graph.h"

namespace et::ir {

/// Copies a node to the end of a graph, but for its tag: arguments, with `copy_of` in the place of each value, results,
/// symbol, source and handles. What `copy_of` adds to the graph stands before it. Requires: no regions.
Node* copy_node(Graph& to, const Node& node, const std::function<Value*(Value*)>& copy_of);

/// Copies inputs, nodes, outputs, and with the nodes their tags, sources and handles. Requires: no regions, no writes,
/// which parts of delegates do not have.
std::unique_ptr<Graph> copy_graph(const Graph& graph);

}  // namespace et::ir
