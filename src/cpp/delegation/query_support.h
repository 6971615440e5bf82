/// What a backend's compiler would take of a program.
///
/// For: partitioners whose table of operators is in C++, so that what they tag is what preprocess can write. The
/// program is an import of its own, only looked at: no pass has run on it, so what folding will compute is still there.
/// Not for: backends whose partitioner has a table in Python.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/costs.h"
#include "passes/backend_compiler.h"

namespace et::delegation {

/// What the backend says of one node.
struct NodeSupport {
  uint32_t debug_handle = 0;
  std::string refusal;  ///< empty = taken
  std::string costs;    ///< of its part, where costs decided
};

/// What is left to kernels although the backend would take it.
struct Leaving {
  bool parts = true;                      ///< nodes of parts that BackendCompiler::offer refuses
  bool functions = true;                  ///< what our kernels do as one operator (leave_spelled_out.h)
  std::vector<ops::TargetIsa> isas = {};  ///< parts that cost more on these processors; none: costs do not decide
};

/// One entry a node, in order, regions of control flow included; nodes that carry a tag already, constants and
/// delegates are left out. Tags what is taken as it goes; `program` is not to be compiled afterwards.
std::vector<NodeSupport> query_support(ir::Program& program, passes::BackendCompiler& compiler,
                                       const std::vector<ir::Delegate::CompileSpec>& specs, const Leaving& leaving,
                                       passes::ConstantEvaluator* evaluator = nullptr);

}  // namespace et::delegation
