/// Checks that a graph keeps the rules of its stage.
///
/// For: after the importer, after every pass, before emission. Cheap enough to be always on: O(nodes + uses).
/// Not for: bytes from a file (runtime/semantic_verifier), nor for whether a kernel exists (lowering checks that).
///
/// Rules of every stage
///  - names are unique in the method; a value is defined once, before its uses, in this graph or in one around it; use
///    lists agree with arguments; producers and indices agree
///  - types are whole: 0 <= min <= max, rank <= 16, dim_order a permutation, expressions well-formed
///  - "constant" and "buffer" name an entry of the program's table with the same type; "delegate" an entry of its list
///  - an operator of the table has as many arguments as its schema, each of the right kind
///  - control flow has the regions that it needs, with matching inputs and outputs
///  - a write's value has the type of what it is written to; no target is written twice
///  - a debug handle stands at one node
/// kEdge: functional operators; no aliases, no allocations.
/// kLowered: names of kernels; an alias stands in memory that is at least as large; no allocations.
/// kPlanned: allocations lie in their arenas; an alias lies where its root does.
///
///     Diagnostics diagnostics;
///     ET_RETURN_IF_ERROR(verify(graph, program, &diagnostics));
#pragma once

#include "ir/diagnostic.h"
#include "ir/graph.h"

namespace et::ir {

/// Errors: InvalidProgram  a rule is broken; each breach (at most 20) is a diagnostic.
Error verify(const Graph& method, const Program& program, Diagnostics* diagnostics);

/// Verifies every method, and that constant methods and delegates are whole.
Error verify(const Program& program, Diagnostics* diagnostics);

}  // namespace et::ir
