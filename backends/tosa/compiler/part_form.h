/// The form in which a part is compiled: its quantize and dequantize nodes and what stands between them have become
/// operators on integers (et::quantized_*), by the same passes that make them for the kernels.
///
/// For: register.cpp. So a part computes what the kernels would, and one table of patterns serves both. In the profile
/// FP operators stay what they are.
#pragma once

#include "passes/backend_compiler.h"

namespace et::backends::tosa::compiler {

/// A program of its own with a copy of the part, and the constants that passes made.
struct PartForm {
  ir::Program program;
  const ir::Graph& graph() const { return *program.methods.front(); }
};

/// Errors: those of the passes.
Error make_part_form(const passes::BackendPart& part, PartForm& out, ir::Diagnostics& diagnostics);

}  // namespace et::backends::tosa::compiler
