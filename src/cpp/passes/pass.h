/// Pass: one rewrite of a graph, and what it works with.
///
/// Rules for passes
///  - one class, one .h/.cpp pair, one golden file (docs/how-to/add_pass.md); no state between runs, none outside the
///  context
///  - the same input gives the same output: nothing is ordered by pointers
///  - nodes are merged only when their tags are equal; debug handles are merged with them (Node::absorb)
///  - what a pass does not know it leaves alone, and when that would be wrong it says so with a diagnostic
///
///     class EliminateDeadCode final : public Pass {
///      public:
///       PassInfo info() const override;
///       Result<Changed> run(ir::Graph& graph, PassContext& context) override;
///     };
///
/// Place: run by pass_manager.h in the order of pipeline.def.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/diagnostic.h"
#include "ir/graph.h"
#include "ops/op_table.h"
#include "passes/constant_evaluator.h"

namespace et::passes {

/// Whether a pass changed the graph. An enum, so that `if (pass.run(…))` does not compile.
enum class Changed : uint8_t { kNo, kYes };

/// What one run works on.
enum class Scope : uint8_t {
  kGraph,   ///< a method or a region; regions first, then what they are in
  kMethod,  ///< a method; the pass looks into regions itself
};

struct PassInfo {
  const char* id;       ///< "fold-constants"
  const char* summary;  ///< one line for `et_opt --list` and the docs
  ir::Stage before = ir::Stage::kEdge;
  ir::Stage after = ir::Stage::kEdge;  ///< the pass manager sets it on the method and its regions
  Scope scope = Scope::kGraph;
  bool is_required = false;  ///< the file would be wrong without it, so it cannot be switched off
  /// It brings in what only our runtime has, so it does not run when the file is to be compatible.
  bool is_extension = false;

  static PassInfo extension(const char* id, const char* summary) {
    PassInfo info{id, summary};
    info.is_extension = true;
    return info;
  }
};

/// What the file is to be like.
struct PassOptions {
  /// Only published operators: the official runtime shall load the file. Passes that are extensions do not run.
  bool compatible = false;
  /// Methods take and give integers where their floats at the border are quantized.
  bool quantized_io = false;
  /// Weights with at least this part of their elements zero are stored without the zeros; above 1: none.
  double sparse_weights = 0.4;
  /// Let image models run in channels-last order where that saves time.
  bool channels_last = true;
  /// The memory plan gives memory to inputs and to outputs; without, the caller does, and they share memory with
  /// nothing.
  bool plan_inputs = true;
  bool plan_outputs = true;
};

/// An operator that the table does not have.
struct CustomOp {
  /// Name of its kernel, which takes the same arguments and then its outs.
  std::string kernel;
  /// Bit i: the operator changes argument i. Its last results are the new values of these arguments, in their order,
  /// and each may take the memory of its own argument (runtime/in_place_kernel.h).
  uint32_t changed = 0;
};
using CustomOps = std::map<std::string, CustomOp, std::less<>>;

struct PassContext {
  ir::Program& program;
  ir::Diagnostics& diagnostics;
  PassOptions options = {};
  /// Functions of 16-bit integers become tables, too: 513 results, 128 integers apart, and straight lines between.
  bool tabulate_16_bits = false;
  /// nullptr: constants are only reshaped, not computed.
  ConstantEvaluator* evaluator = nullptr;
  /// Users' operators that the table does not have, by functional name.
  CustomOps custom_ops = {};
};

class Pass {
 public:
  virtual ~Pass() = default;
  virtual PassInfo info() const = 0;
  /// Errors: the code of a diagnostic that was added to the context.
  virtual Result<Changed> run(ir::Graph& graph, PassContext& context) = 0;
};

}  // namespace et::passes
