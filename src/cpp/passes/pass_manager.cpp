#include "passes/pass_manager.h"

#include <chrono>

#include "ir/verifier.h"
#include "passes/pipeline.h"

namespace et::passes {
namespace {

uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

Error complain(PassContext& context, Error code, std::string message) {
  ir::Diagnostic diagnostic;
  diagnostic.code = code;
  diagnostic.message = std::move(message);
  context.diagnostics.push_back(std::move(diagnostic));
  return code;
}

void set_stage(ir::Graph& graph, ir::Stage stage) {
  graph.stage = stage;
  for (const auto& node : graph.nodes()) {
    for (const auto& region : node->regions) {
      set_stage(*region, stage);
    }
  }
}

/// Regions first, then the graph they are in.
Result<Changed> run_on(Pass& pass, Scope scope, ir::Graph& graph, PassContext& context) {
  Changed changed = Changed::kNo;
  if (scope == Scope::kGraph) {
    for (const auto& node : graph.nodes()) {
      for (const auto& region : node->regions) {
        ET_TRY(const Changed inner, run_on(pass, scope, *region, context));
        changed = inner == Changed::kYes ? inner : changed;
      }
    }
  }
  ET_TRY(const Changed here, pass.run(graph, context));
  return here == Changed::kYes ? here : changed;
}

}  // namespace

Error PassManager::run_pass(Pass& pass, ir::Graph& method, PassContext& context, PassTiming& timing) {
  const PassInfo info = pass.info();
  if (info.is_extension && context.options.compatible) {
    return Error::Ok;
  }
  if (method.stage != info.before) {
    return complain(
        context, Error::InvalidState,
        "pass " + std::string(info.id) + " was given method " + method.name + " at a stage that it does not take");
  }
  const uint64_t start = now_ns();
  Result<Changed> changed = run_on(pass, info.scope, method, context);
  if (!changed.ok()) {
    return changed.error();
  }
  if (info.after != info.before) {
    set_stage(method, info.after);
  }
  const uint64_t end = now_ns();
  timing.duration_ns += end - start;
  timing.num_changed += *changed == Changed::kYes ? 1 : 0;
  if (options_.verify && (*changed == Changed::kYes || info.after != info.before)) {
    if (verify(method, context.program, &context.diagnostics) != Error::Ok) {
      return complain(context, Error::Internal,
                      "pass " + std::string(info.id) + " left method " + method.name +
                          " broken (see the diagnostics before this one); please report it, and "
                          "disable the pass in the meantime");
    }
    timing.verify_duration_ns += now_ns() - end;
  }
  if (options_.on_pass) {
    options_.on_pass(info.id, method, *changed);
  }
  return Error::Ok;
}

Error PassManager::run(Span<const std::string_view> ids, ir::Program& program, PassContext& context) {
  for (const std::string& id : options_.disabled) {
    const std::unique_ptr<Pass> pass = make_pass(id);
    if (pass == nullptr) {
      return complain(context, Error::NotFound, "there is no pass '" + id + "' to disable");
    }
    if (pass->info().is_required) {
      return complain(context, Error::InvalidArgument, "pass '" + id + "' cannot be left out: the file would be wrong");
    }
  }
  if (options_.verify) {
    ET_RETURN_IF_ERROR(verify(program, &context.diagnostics));
  }
  for (const std::string_view id : ids) {
    if (options_.disabled.count(id) != 0) {
      continue;
    }
    const std::unique_ptr<Pass> pass = make_pass(id);
    if (pass == nullptr) {
      return complain(context, Error::NotFound, "there is no pass '" + std::string(id) + "'");
    }
    PassTiming& timing = timings_.emplace_back();
    timing.id = id;
    for (const auto& method : program.methods) {
      ET_RETURN_IF_ERROR(run_pass(*pass, *method, context, timing));
    }
  }
  return Error::Ok;
}

}  // namespace et::passes
