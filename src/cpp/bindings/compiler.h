/// What the compiler's bindings share: the program between the importer and compile().
#pragma once

#include <memory>
#include <vector>

#include "bindings/errors.h"
#include "ir/diagnostic.h"
#include "ir/graph.h"

namespace et::bindings {

/// An ir::Program on the Python side; methods under construction hold it, too.
struct ProgramHandle {
  std::shared_ptr<ir::Program> program = std::make_shared<ir::Program>();
};

/// The compiler's diagnostics as the Python border carries them.
std::vector<Diagnostic> to_python(const ir::Diagnostics& diagnostics);

}  // namespace et::bindings
