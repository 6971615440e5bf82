/// compile(): an Edge program becomes a file.
///
///     passes before delegation → outline delegates → passes after it → kernel check → memory plan → emission
///
/// For: the Python package and et_opt. It is the only place that sees both compiler and runtime, whose portable kernels
/// fold constants. Not for: deciding what is delegated; tags come with the program.
///
///     CompileOptions options;
///     options.kernels = &registry;                        // what the runtime of this build can run
///     Compiled compiled;
///     if (compile(program, options, compiled, diagnostics) == Error::Ok)
///       error = emit::save(compiled.file.program, "model.pte");
///
/// Threads: programs are independent; one program at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "delegation/outline_delegates.h"
#include "delegation/query_support.h"
#include "driver/finish.h"
#include "passes/pass_manager.h"
#include "runtime/kernel.h"

namespace et::driver {

struct CompileOptions : FinishOptions {
  /// Kernels that the file may call; nullptr: not checked.
  const runtime::KernelRegistry* kernels = nullptr;
  /// Backends with a C++ preprocess; nullptr: none.
  const passes::BackendCompilers* backends = nullptr;
  /// Who compiles what is tagged.
  delegation::DelegationTable delegation;
  /// Ids of passes that are left out.
  std::set<std::string, std::less<>> disabled_passes;
  /// Users' operators, by functional name.
  passes::CustomOps custom_ops;
  /// Kernels that only the target has: not looked for in `kernels`.
  std::set<std::string, std::less<>> target_kernels;
  double sparse_weights = passes::PassOptions().sparse_weights;  ///< see passes::PassOptions; also goes to `emit`
  bool channels_last = true;                                     ///< the same
  bool quantized_io = false;                                     ///< the same
  bool verify = true;                                            ///< verify the graph after each pass
  /// Called after each pass of each method, for dumps.
  std::function<void(std::string_view pass_id, const ir::Graph& method, passes::Changed changed)> on_pass;
};

struct Compiled : Finished {
  std::shared_ptr<ir::Program> program;          ///< after the last step
  std::vector<passes::PassTiming> pass_timings;  ///< in order of their runs
};

/// Compiles `program` in place: it is at Stage::kPlanned afterwards, or half way when there was an error.
///
/// Errors: those of passes, outline_delegates, check_kernels and finish, with diagnostics.
Error compile(const std::shared_ptr<ir::Program>& program, const CompileOptions& options, Compiled& out,
              ir::Diagnostics& diagnostics);

/// Runs passes by their ids, folding included. For et_opt and tests.
Error run_passes(ir::Program& program, const std::vector<std::string_view>& ids, bool compatible,
                 ir::Diagnostics& diagnostics);

/// delegation::query_support, with folding as compile() does it.
Result<std::vector<delegation::NodeSupport>> query_support(ir::Program& program, passes::BackendCompiler& compiler,
                                                           const std::vector<ir::Delegate::CompileSpec>& specs,
                                                           const delegation::Leaving& leaving);

}  // namespace et::driver
