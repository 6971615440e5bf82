/// Runs passes in order, verifies the graph after each, dumps and skips by name.
///
///     PassManager manager(options);
///     ET_RETURN_IF_ERROR(manager.run(before_delegation(), program, context));
///     …outline delegates…
///     ET_RETURN_IF_ERROR(manager.run(after_delegation(), program, context));
///
/// Place: driver/ and et_opt call it; pipeline.h has the passes and their order.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/span.h"
#include "passes/pass.h"

namespace et::passes {

struct ManagerOptions {
  /// Ids of passes that are left out. Required ones (PassInfo) cannot be.
  std::set<std::string, std::less<>> disabled;
  /// Verify every method after every pass that changed it. Costs little; switch off only to find out how little.
  bool verify = true;
  /// Called after a pass of a method, also when it changed nothing.
  std::function<void(std::string_view pass_id, const ir::Graph& method, Changed changed)> on_pass;
};

/// How long a pass took over all methods.
struct PassTiming {
  std::string id;
  uint64_t duration_ns = 0;         ///< the pass alone
  uint64_t verify_duration_ns = 0;  ///< the verifier after it
  uint32_t num_changed = 0;         ///< methods
};

class PassManager {
 public:
  explicit PassManager(ManagerOptions options = {}) : options_(std::move(options)) {}

  /// Runs the passes named by `ids` on every method, each pass over all methods before the next.
  ///
  /// Errors: NotFound         an id, or a disabled id, names no pass.
  ///         InvalidArgument  a disabled pass is required.
  ///         InvalidProgram   the graph breaks a rule before the first pass.
  ///         Internal         it does so after a pass: a bug of that pass, which the diagnostics name.
  ///         what a pass returned.
  Error run(Span<const std::string_view> ids, ir::Program& program, PassContext& context);

  const std::vector<PassTiming>& timings() const { return timings_; }

 private:
  Error run_pass(Pass& pass, ir::Graph& method, PassContext& context, PassTiming& timing);

  ManagerOptions options_;
  std::vector<PassTiming> timings_;
};

}  // namespace et::passes
