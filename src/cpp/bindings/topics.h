/// What the extension module is made of: a function for each topic, defined in the file of the same name.
///
/// To add a topic: a file `<topic>.cpp`, a line here, a line in module.cpp, a line in CMakeLists.txt.
#pragma once

#include <pybind11/pybind11.h>

namespace et::bindings {

void init_bundled_program(pybind11::module_& module);
void init_compiled_program(pybind11::module_& module);
void init_compiler(pybind11::module_& module);
void init_operator_tables(pybind11::module_& module);
void init_program_builder(pybind11::module_& module);
void init_python_backend(pybind11::module_& module);
void init_runtime_program(pybind11::module_& module);
void init_runtime_registry(pybind11::module_& module);
void init_training(pybind11::module_& module);

}  // namespace et::bindings
