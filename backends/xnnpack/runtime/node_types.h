/// The table of node types of the format: which form a node has, what the library calls it, which flags it may carry.
///
/// For: model.cpp (reading), subgraph.cpp (building). One row a type, in the order of the union.
#pragma once

#include "backends/xnnpack/runtime/model.h"

namespace et::backends::xnnpack {

/// The row of a type; nullptr for a number that the format does not know.
const NodeType* find_node_type(payload::NodeUnion type);

/// Checks what a node says by itself: types of its values, constants where they must be, sizes of filters and biases,
/// other numbers. `model.values` are read. Errors: InvalidProgram, NotSupported.
Error check_node(const Model& model, const Node& node);

}  // namespace et::backends::xnnpack
