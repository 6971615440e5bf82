#include "bindings/runtime_registry.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/errors.h"
#include "bindings/interrupt.h"
#include "bindings/python_backend.h"
#include "bindings/topics.h"
#include "threads/thread_pool.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

using runtime::BackendRegistry;

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  const BackendRegistry& registry = process_runtime().backends;
  for (size_t i = 0; i < registry.size(); ++i) {
    names.emplace_back(registry.name(i));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_backend_available(const std::string& name) {
  const runtime::BackendInterface* const backend = process_runtime().backends.find(name);
  return backend != nullptr && backend->is_available();
}

/// Opens a plug-in and registers what it brings; gives its name.
std::string load_plugin(const std::string& path) {
  clear_last_message();
  Result<std::string> name = [&] {
    const py::gil_scoped_release release;
    return extension::load_plugin(path);
  }();
  return unwrap(std::move(name));
}

void register_backend(const std::string& name, py::object implementation) {
  if (PythonBackend* const known = PythonBackend::find(name); known != nullptr) {
    known->replace(std::move(implementation));
    return;
  }
  PythonBackend* const made = PythonBackend::make(name, std::move(implementation));
  Error error;
  {
    const py::gil_scoped_release release;
    error = extension::register_backend(made->name(), made);
  }
  if (error != Error::Ok) {
    PythonBackend::forget(made);
  }
  check(error);
}

}  // namespace

extension::Process& process_runtime() {
  check(extension::process_error());
  return extension::process();
}

void init_runtime_registry(py::module_& module) {
  init_interrupt();
  module.def("set_num_threads", &threads::set_num_threads, py::arg("count"),
             "Threads of the process's pool, the calling one included; 0: all processors");
  module.def("num_threads", &threads::num_threads, "Threads of the process's pool");
  module.def("backend_names", &backend_names, "Names of all registered backends, sorted");
  module.def("is_backend_available", &is_backend_available, py::arg("name"),
             "False for a backend that is not registered or whose device is not there");
  module.def("load_plugin", &load_plugin, py::arg("path"), "Loads a plug-in (runtime/plugin.h); gives its name");
  module.def("register_backend", &register_backend, py::arg("name"), py::arg("implementation"),
             "Registers an object with init and execute as a backend, or replaces one written in Python");
}

}  // namespace et::bindings
