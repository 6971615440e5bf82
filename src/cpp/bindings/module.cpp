/// The extension module `executorch_py._core`: one init function a topic, each in its own file.
#include <pybind11/pybind11.h>

#include "bindings/errors.h"
#include "bindings/topics.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "C++ core of executorch_py: the compiler's back half and the runtime.";
  et::bindings::init_errors(module);
  et::bindings::init_runtime_registry(module);
  et::bindings::init_python_backend(module);
  et::bindings::init_runtime_program(module);
  et::bindings::init_bundled_program(module);
  et::bindings::init_training(module);
  et::bindings::init_operator_tables(module);
  et::bindings::init_program_builder(module);
  et::bindings::init_compiled_program(module);
  et::bindings::init_compiler(module);
}
