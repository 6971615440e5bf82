/// Cuts tagged nodes out of the program and has each part compiled by its backend.
///
/// Nodes with one tag become as few parts as can be, each of which
///  - is convex: no path leads out of a part and back into it, so that it can run at one moment;
///  - keeps the program acyclic together with all other parts (two convex parts may still wait for each other).
/// A part is grown in order of execution, into the largest one that allows it. Its place in the method is then taken by
/// one `delegate` node.
///
///     a·  b·  c   d·     b and d have a tag, c between them has none:
///      └─▶└──▶└──▶└      {b} and {d} are two parts, and {a, b} is one
///
/// Requires: Stage::kEdge, verified. Ensures: no node is tagged; verified again.
/// Place: between passes::before_delegation() and passes::after_delegation().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/graph.h"
#include "passes/backend_compiler.h"

namespace et::delegation {

/// Who compiles the nodes with a tag, and how (a partitioner's DelegationSpec).
struct DelegationSpec {
  std::string backend_id;
  std::vector<ir::Delegate::CompileSpec> compile_specs;
};
using DelegationTable = std::map<std::string, DelegationSpec, std::less<>>;

/// Errors: NotFound         a tag that has no entry, or a backend that has no compiler in this build.
///         NotSupported     control flow is tagged.
///         InvalidArgument  two delegates put different bytes under one key of named data.
///         those of preprocess.
Error outline_delegates(ir::Program& program, const DelegationTable& table, const passes::BackendCompilers& compilers,
                        ir::Diagnostics& diagnostics, passes::ConstantEvaluator* evaluator = nullptr);

/// Reads sizes at the inputs of the method instead of at values that a part may compute. A size that is read in between
/// would divide the part, although the same number is known at the start.
void read_sizes_at_inputs(ir::Graph& graph);

/// Groups of tagged nodes of `graph` (regions not entered), each convex, all together acyclic; members in order of
/// execution, groups in order of their first member. What outline_delegates cuts out.
std::vector<std::vector<ir::Node*>> delegate_parts(const ir::Graph& graph);

/// Gives each part copies of the nodes in other parts of its tag that say how its operands are quantized: dequantize,
/// and what quantizes at run time. They stand before their users, in the graph and in the parts.
void own_conversions(ir::Graph& graph, std::vector<std::vector<ir::Node*>>& parts);

}  // namespace et::delegation
