/// `_core.CompiledProgram`: the file that came out of the compiler, not yet written.
///
/// It borrows the weights from torch until it is written: `save` streams them to the disk, `to_bytes` copies them once.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

#include "bindings/compiler.h"
#include "bindings/errors.h"
#include "bindings/topics.h"
#include "driver/compile.h"
#include "ir/printer.h"
#include "runtime/host/pages.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

py::bytes to_bytes(const emit::File& file) {
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(file.nbytes));
  if (bytes == nullptr) {
    throw py::error_already_set();
  }
  auto owned = py::reinterpret_steal<py::bytes>(bytes);
  runtime::want_huge_pages(PyBytes_AS_STRING(bytes), file.nbytes);
  emit::MemorySink sink(PyBytes_AS_STRING(bytes), file.nbytes);
  Error error = Error::Ok;
  {
    const py::gil_scoped_release release;
    error = file.write(sink);
  }
  check(error);
  return owned;
}

void save_file(const emit::File& file, const std::string& path) {
  Error error = Error::Ok;
  {
    const py::gil_scoped_release release;
    error = emit::save(file, path);
  }
  check(error);
}

const emit::File& external(const driver::Compiled& compiled, const std::string& name) {
  const auto found = compiled.file.externals.find(name);
  if (found == compiled.file.externals.end()) {
    throw py::key_error("there is no external file '" + name + "'");
  }
  return found->second;
}

py::dict external_files(const driver::Compiled& compiled) {
  py::dict out;
  for (const auto& [name, file] : compiled.file.externals) {
    out[py::str(name)] = file.nbytes;
  }
  return out;
}

py::list memory_report(const driver::Compiled& finished) {
  py::list out;
  for (const planning::MethodReport& report : finished.memory) {
    py::dict entry;
    entry["method"] = report.method;
    entry["planned_nbytes"] = report.planned_nbytes;
    entry["max_live_nbytes"] = report.max_live_nbytes;
    entry["naive_nbytes"] = report.naive_nbytes;
    entry["arena_sizes"] = report.arena_sizes;
    out.append(entry);
  }
  return out;
}

py::list pass_timings(const driver::Compiled& compiled) {
  py::list out;
  for (const passes::PassTiming& timing : compiled.pass_timings) {
    out.append(py::make_tuple(timing.id, timing.duration_ns, timing.verify_duration_ns, timing.num_changed));
  }
  return out;
}

/// Constants of more elements than this are printed without their data.
constexpr size_t kMaxPrintedElements = 16;

std::string text(const driver::Compiled& compiled) {
  ir::PrintOptions options;
  options.max_data_elements = kMaxPrintedElements;
  return ir::to_text(*compiled.program, options);
}

py::dict handles(const driver::Compiled& finished) {
  py::dict out;
  for (const emit::MethodHandles& method : finished.file.handles) {
    out[py::str(method.method)] = py::cast(method.instructions);
  }
  return out;
}

/// {method: [(instruction, position of the delegate, its backend, number of outputs, {step: [debug handles]})]}
py::dict delegate_calls(const driver::Compiled& finished) {
  py::dict out;
  for (const emit::MethodHandles& method : finished.file.handles) {
    py::list calls;
    for (const emit::MethodHandles::Call& call : method.calls) {
      const ir::Delegate& delegate = finished.program->delegates.at(call.delegate);
      py::dict steps;
      for (const ir::Delegate::Step& step : delegate.steps) {
        steps[py::int_(step.id)] = step.handles;
      }
      calls.append(
          py::make_tuple(call.instruction, call.delegate, delegate.backend_id, call.num_outputs, std::move(steps)));
    }
    out[py::str(method.method)] = std::move(calls);
  }
  return out;
}

}  // namespace

void init_compiled_program(py::module_& module) {
  py::class_<driver::Compiled>(module, "CompiledProgram", "A compiled program; write it with save() or to_bytes().")
      .def_property_readonly("nbytes", [](const driver::Compiled& self) { return self.file.program.nbytes; })
      .def_property_readonly("external_files", &external_files, "{name of a .ptd, without extension: its bytes}")
      .def("to_bytes", [](const driver::Compiled& self) { return to_bytes(self.file.program); })
      .def(
          "external_to_bytes",
          [](const driver::Compiled& self, const std::string& name) { return to_bytes(external(self, name)); },
          py::arg("name"))
      .def(
          "save", [](const driver::Compiled& self, const std::string& path) { save_file(self.file.program, path); },
          py::arg("path"), "Streams the file to a temporary name and renames it")
      .def(
          "save_external",
          [](const driver::Compiled& self, const std::string& name, const std::string& path) {
            save_file(external(self, name), path);
          },
          py::arg("name"), py::arg("path"))
      .def_property_readonly("memory", &memory_report, "One dict a method: planned, live and naive bytes, arena sizes")
      .def_property_readonly("text", &text, "The IR after the last step; large constants without their data")
      .def_property_readonly("pass_timings", &pass_timings, "[(id, ns, ns of the verifier, methods changed)]")
      .def_property_readonly("delegate_calls", &delegate_calls,
                             "{method: [(instruction, delegate, backend, number of outputs, {step: debug handles})]}")
      .def_property_readonly("debug_handles", &handles, "{method: [debug handles of each instruction]}");
}

}  // namespace et::bindings
