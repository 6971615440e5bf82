/// The compiler's entry points: text in and out, the last steps, compile().
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/compiler.h"
#include "bindings/errors.h"
#include "bindings/python_planner.h"
#include "bindings/topics.h"
#include "driver/finish.h"
#include "ir/parser.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

/// Options are a dict with the names of the C++ members, so that a new one needs no new signature. What is not known is an
/// error: a misspelt option must not be ignored.
class Options {
 public:
  explicit Options(py::dict options) : left_(std::move(options)) {}

  template <typename T>
  void take(const char* name, T& target) {
    if (left_.contains(name)) {
      target = left_[name].cast<T>();
      PyDict_DelItemString(left_.ptr(), name);
    }
  }
  py::object take(const char* name) {
    py::object value = py::none();
    take(name, value);
    return value;
  }
  void finish() const {
    for (const auto& [name, value] : left_) {
      throw py::type_error("there is no compile option '" + name.cast<std::string>() + "'");
    }
  }

 private:
  py::dict left_;
};

void take_options(Options& options, driver::FinishOptions& out) {
  options.take("plan_inputs", out.memory.lifetimes.plan_inputs);
  options.take("plan_outputs", out.memory.lifetimes.plan_outputs);
  options.take("memory_alignment", out.memory.alignment);
  std::vector<std::pair<std::string, uint64_t>> arenas;
  options.take("arenas", arenas);
  if (!arenas.empty()) {
    out.memory.arenas.clear();
    for (auto& [name, capacity] : arenas) {
      out.memory.arenas.push_back({std::move(name), capacity});
    }
  }
  out.memory.planner = to_planner(options.take("planner"));
  options.take("segment_alignment", out.emit.segment_alignment);
  options.take("constant_alignment", out.emit.constant_alignment);
  options.take("compatible", out.emit.compatible);
  options.take("debug_info", out.emit.debug_info);
}

/// Runs `step` without the GIL and raises what went wrong in it.
template <typename Step>
void run_step(const std::shared_ptr<planning::Planner>& planner, const Step& step) {
  ir::Diagnostics diagnostics;
  Error error = Error::Ok;
  clear_last_message();
  {
    const py::gil_scoped_release release;
    error = step(diagnostics);
  }
  if (error != Error::Ok) {
    rethrow_planner_error(planner);
    check(error, to_python(diagnostics));
  }
}

std::unique_ptr<driver::Finished> finish(const ProgramHandle& handle, py::dict given) {
  Options options(given.attr("copy")());
  driver::FinishOptions finish_options;
  take_options(options, finish_options);
  options.finish();
  auto finished = std::make_unique<driver::Finished>();
  run_step(finish_options.memory.planner, [&](ir::Diagnostics& diagnostics) {
    return driver::finish(handle.program, finish_options, *finished, diagnostics);
  });
  return finished;
}

std::unique_ptr<ProgramHandle> parse_program(const std::string& text) {
  ir::ParseError error;
  Result<std::unique_ptr<ir::Program>> program = ir::parse(text, &error);
  if (!program.ok()) {
    throw CoreError(program.error(), error.to_string());
  }
  auto handle = std::make_unique<ProgramHandle>();
  handle->program = std::move(*program);
  return handle;
}

}  // namespace

void init_compiler(py::module_& module) {
  module.def("parse_program", &parse_program, py::arg("text"), "The program that a text of the IR describes");
  module.def("finish", &finish, py::arg("program"), py::arg("options") = py::dict(),
             "Plans the memory of a lowered program and lays out its file");
}

}  // namespace et::bindings
