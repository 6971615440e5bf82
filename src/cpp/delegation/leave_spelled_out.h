/// Keeps functions that a model wrote out in one piece, outside of a backend that would compute them operator by
/// operator.
///
/// For: query_support, after the backend has judged each node. A GELU whose cube the backend does not have would be
/// split into parts, and passes that make one operator of it (recognise-activations, recognise-norms) would find none:
///     mul (taken) ─▶ pow (refused) ─▶ mul, add, tanh, … (taken)
/// One that it takes whole is as many passes over the data as it has operators; the costs of both sides decide whether
/// one kernel behind a border is better.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/costs.h"
#include "passes/backend_compiler.h"

namespace et::delegation {

/// `refuse(node, why)` is called for nodes of `graph` that are to be left; taken nodes carry a tag, and `refuse`
/// removes it. `isas`: the processors whose costs count.
void leave_spelled_out(ir::Graph& graph, const ir::Program& program, passes::BackendCompiler& compiler,
                       const std::vector<ops::TargetIsa>& isas,
                       const std::function<void(ir::Node&, std::string)>& refuse);

}  // namespace et::delegation
