/// The last steps of compilation: a lowered program gets its memory plan and becomes a file.
///
/// For: compile.h, and for programs that are written by hand at Stage::kLowered (tests, et_opt).
///
///     Finished out;
///     ET_RETURN_IF_ERROR(finish(program, {}, out, diagnostics));
///     ET_RETURN_IF_ERROR(emit::save(out.file.program, "model.pte"));
#pragma once

#include <memory>

#include "emit/emit.h"
#include "ir/diagnostic.h"
#include "ir/graph.h"
#include "planning/plan_memory.h"

namespace et::driver {

struct FinishOptions {
  planning::MemoryPlans memory;
  emit::EmitOptions emit;
};

struct Finished {
  emit::Emitted file;           ///< borrows the program's constants and payloads, and keeps it alive
  planning::PlanReport memory;  ///< one entry a method
};

/// Plans, checks the plan and emits. Errors: those of planning and emission; diagnostics may be empty, then the line
/// that went to the log hook says what is wrong.
Error finish(const std::shared_ptr<ir::Program>& program, const FinishOptions& options, Finished& out,
             ir::Diagnostics& diagnostics);

}  // namespace et::driver
