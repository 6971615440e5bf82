/// The compiler's entry points: text in and out, the last steps, compile().
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <algorithm>

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "bindings/compiler.h"
#include "bindings/errors.h"
#include "bindings/python_planner.h"
#include "bindings/runtime_registry.h"
#include "bindings/topics.h"
#include "delegation/query_support.h"
#include "driver/compile.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "passes/pipeline.h"

namespace py = pybind11;

#define ET_BACKEND_COMPILER(name)                        \
  namespace et::backends::name {                         \
  Error register_compiler(passes::BackendCompilers& to); \
  }
#include "backends/compiler_table.inc"
#undef ET_BACKEND_COMPILER

namespace et::bindings {
namespace {

constexpr uint32_t kMaxArenas = 16;

/// The C++ compilers of this build's backends. Filled once, from the generated table.
const passes::BackendCompilers& backend_compilers() {
  static const passes::BackendCompilers* const instance = [] {
    auto* compilers = new passes::BackendCompilers;
#define ET_BACKEND_COMPILER(name) check(backends::name::register_compiler(*compilers));
#include "backends/compiler_table.inc"
#undef ET_BACKEND_COMPILER
    return compilers;
  }();
  return *instance;
}

/// Options are a dict with the names of the C++ members, so that a new one needs no new signature. What is not known is
/// an error: a misspelt option must not be ignored.
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

/// {"algorithm", "alloc_graph_input", "alloc_graph_output", "overlap_inputs", "alignment", "capacities"}: an
/// ExecutorchBackendConfig's MemoryPlanningPass. Arenas are numbered to the largest id that has a capacity.
planning::MemoryPlan to_plan(const py::dict& given) {
  Options options(given.attr("copy")());
  planning::MemoryPlan plan;
  plan.planner = to_planner(options.take("algorithm"));
  options.take("alloc_graph_input", plan.lifetimes.plan_inputs);
  options.take("alloc_graph_output", plan.lifetimes.plan_outputs);
  options.take("overlap_inputs", plan.lifetimes.overlap_inputs);
  options.take("alignment", plan.alignment);
  std::map<uint32_t, uint64_t> capacities;
  options.take("capacities", capacities);
  options.finish();
  for (const auto& [id, capacity] : capacities) {
    if (id == 0 || id > kMaxArenas) {
      throw py::value_error("memory ids are 1 to " + std::to_string(kMaxArenas) + ", not " + std::to_string(id));
    }
    while (plan.arenas.size() < id) {
      plan.arenas.push_back({"memory " + std::to_string(plan.arenas.size() + 1), 0});
    }
    plan.arenas[id - 1].capacity = capacity;
  }
  return plan;
}

/// "planning" is {method: plan}; the method "" stands for all others.
void take_finish_options(Options& options, driver::FinishOptions& out) {
  std::map<std::string, py::dict> plans;
  options.take("planning", plans);
  for (const auto& [method, plan] : plans) {
    (method.empty() ? out.memory.common : out.memory.by_method[method]) = to_plan(plan);
  }
  options.take("segment_alignment", out.emit.segment_alignment);
  options.take("constant_alignment", out.emit.constant_alignment);
  options.take("inline_delegates", out.emit.inline_payloads);
  options.take("compatible", out.emit.compatible);
  options.take("debug_info", out.emit.debug_info);
  options.take("debug_handles", out.emit.debug_handles);
}

/// "delegation" is {tag: (backend id, [(key, bytes)])}; "custom_ops" is
/// {operator: (kernel, changed arguments as bits, letters of its parameters)}.
void take_compile_options(Options& options, driver::CompileOptions& out) {
  take_finish_options(options, out);
  std::vector<std::string> disabled;
  options.take("disabled_passes", disabled);
  out.disabled_passes.insert(disabled.begin(), disabled.end());
  std::map<std::string, std::tuple<std::string, uint32_t, std::string>> custom;
  options.take("custom_ops", custom);
  for (const auto& [op, description] : custom) {
    const auto& [kernel, changed, signature] = description;
    out.custom_ops[op] = {kernel, changed};
    out.emit.signatures[kernel] = signature;
  }
  std::vector<std::string> target_kernels;
  options.take("target_kernels", target_kernels);
  out.target_kernels.insert(target_kernels.begin(), target_kernels.end());
  options.take("sparse_weights", out.sparse_weights);
  options.take("channels_last", out.channels_last);
  options.take("quantized_io", out.quantized_io);
  options.take("verify", out.verify);
  std::map<std::string, std::pair<std::string, std::vector<std::pair<std::string, py::bytes>>>> delegation;
  options.take("delegation", delegation);
  for (const auto& [tag, spec] : delegation) {
    delegation::DelegationSpec& to = out.delegation[tag];
    to.backend_id = spec.first;
    for (const auto& [key, value] : spec.second) {
      to.compile_specs.push_back({key, static_cast<std::string>(value)});
    }
  }
  out.kernels = &process_runtime().kernels;
  out.backends = &backend_compilers();
}

std::vector<std::shared_ptr<planning::Planner>> planners_of(const planning::MemoryPlans& plans) {
  std::vector<std::shared_ptr<planning::Planner>> planners{plans.common.planner};
  for (const auto& [method, plan] : plans.by_method) {
    planners.push_back(plan.planner);
  }
  return planners;
}

/// Runs `step` without the GIL and raises what went wrong in it.
template <typename Step>
void run_step(const planning::MemoryPlans& plans, const Step& step) {
  ir::Diagnostics diagnostics;
  Error error = Error::Ok;
  clear_last_message();
  {
    const py::gil_scoped_release release;
    error = step(diagnostics);
  }
  if (error == Error::Ok) {
    return;
  }
  for (const auto& planner : planners_of(plans)) {
    rethrow_planner_error(planner);
  }
  if (!diagnostics.empty()) {
    clear_last_message();  // the diagnostics say it with its place
  }
  check(error, to_python(diagnostics));
}

std::unique_ptr<driver::Compiled> finish(const ProgramHandle& handle, const py::dict& given) {
  Options options(given.attr("copy")());
  driver::FinishOptions finish_options;
  take_finish_options(options, finish_options);
  options.finish();
  auto compiled = std::make_unique<driver::Compiled>();
  compiled->program = handle.program;
  run_step(finish_options.memory, [&](ir::Diagnostics& diagnostics) {
    return driver::finish(handle.program, finish_options, *compiled, diagnostics);
  });
  return compiled;
}

std::unique_ptr<driver::Compiled> compile(const ProgramHandle& handle, const py::dict& given) {
  Options options(given.attr("copy")());
  driver::CompileOptions compile_options;
  take_compile_options(options, compile_options);
  py::object on_pass = options.take("on_pass");
  options.finish();
  std::exception_ptr thrown;
  if (!on_pass.is_none()) {
    compile_options.on_pass = [&](std::string_view id, const ir::Graph& method, passes::Changed changed) {
      const py::gil_scoped_acquire gil;
      try {
        if (thrown == nullptr) {
          on_pass(std::string(id), method.name, changed == passes::Changed::kYes, ir::to_text(method));
        }
      } catch (...) {
        thrown = std::current_exception();
      }
    };
  }
  auto compiled = std::make_unique<driver::Compiled>();
  run_step(compile_options.memory, [&](ir::Diagnostics& diagnostics) {
    return driver::compile(handle.program, compile_options, *compiled, diagnostics);
  });
  if (thrown != nullptr) {
    std::rethrow_exception(thrown);
  }
  return compiled;
}

using Specs = std::vector<std::pair<std::string, py::bytes>>;

/// The processor of this name; the usual ones for "any".
std::vector<ops::TargetIsa> target_isas(const std::string& name) {
  if (name == "any") {
    return {std::begin(ops::kUsualIsas), std::end(ops::kUsualIsas)};
  }
  const auto* const found = std::find(std::begin(ops::kIsaNames), std::end(ops::kIsaNames), name);
  return found == std::end(ops::kIsaNames)
             ? std::vector<ops::TargetIsa>()
             : std::vector{static_cast<ops::TargetIsa>(found - std::begin(ops::kIsaNames))};
}

/// [(debug handle, why the backend does not take the node, "" = it does, what its part costs)]
std::vector<std::tuple<uint32_t, std::string, std::string>> query_support(const ProgramHandle& handle,
                                                                          const std::string& backend_id,
                                                                          const Specs& given, bool leave_parts,
                                                                          bool leave_functions,
                                                                          const std::string& isa) {
  passes::BackendCompiler* compiler = backend_compilers().find(backend_id);
  if (compiler == nullptr) {
    throw CoreError(Error::NotFound, "this build has no compiler for backend '" + backend_id + "'");
  }
  std::vector<ir::Delegate::CompileSpec> specs;
  for (const auto& [key, value] : given) {
    specs.push_back({key, static_cast<std::string>(value)});
  }
  std::vector<std::tuple<uint32_t, std::string, std::string>> out;
  const delegation::Leaving leaving{leave_parts, leave_functions, target_isas(isa)};
  Result<std::vector<delegation::NodeSupport>> answers =
      driver::query_support(*handle.program, *compiler, specs, leaving);
  check(answers.error());
  for (delegation::NodeSupport& node : *answers) {
    out.emplace_back(node.debug_handle, std::move(node.refusal), std::move(node.costs));
  }
  return out;
}

/// Parts of a graph, then those of the bodies of its control flow.
void collect_parts(const ir::Graph& graph, std::vector<std::vector<uint32_t>>& parts) {
  for (const std::vector<ir::Node*>& part : delegation::delegate_parts(graph)) {
    auto& handles = parts.emplace_back();
    for (const ir::Node* node : part) {
      handles.push_back(node->debug_handle);
    }
  }
  for (const auto& node : graph.nodes()) {
    for (const auto& region : node->regions) {
      collect_parts(*region, parts);
    }
  }
}

/// {method: [[debug handles of a part]]}, as outline_delegates would split the tagged nodes of an imported program.
std::map<std::string, std::vector<std::vector<uint32_t>>> delegate_parts(const ProgramHandle& handle) {
  std::map<std::string, std::vector<std::vector<uint32_t>>> out;
  for (const auto& method : handle.program->methods) {
    delegation::read_sizes_at_inputs(*method);
    collect_parts(*method, out[method->name]);
  }
  return out;
}

void run_passes(const ProgramHandle& handle, const std::vector<std::string>& ids, bool compatible) {
  const std::vector<std::string_view> views(ids.begin(), ids.end());
  run_step({}, [&](ir::Diagnostics& diagnostics) {
    return driver::run_passes(*handle.program, views, compatible, diagnostics);
  });
}

py::list list_passes() {
  py::list out;
  for (const auto& pass : passes::all_passes()) {
    const passes::PassInfo info = pass->info();
    out.append(py::make_tuple(info.id, info.summary));
  }
  return out;
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
  module.def("compile", &compile, py::arg("program"), py::arg("options") = py::dict(),
             "Compiles an Edge program; the options are those of driver/compile.h by name");
  module.def("run_passes", &run_passes, py::arg("program"), py::arg("ids"), py::arg("compatible") = false,
             "Runs passes by their ids on a program, in place");
  module.def("list_passes", &list_passes, "[(id, summary)] of every pass");
  module.def(
      "compiler_backends", [] { return backend_compilers().ids(); },
      "Ids of the backends of this build whose preprocess is C++");
  module.def(
      "query_support", &query_support, py::arg("program"), py::arg("backend_id"), py::arg("compile_specs"),
      py::arg("leave_parts") = true, py::arg("leave_functions") = true, py::arg("isa") = "",
      "[(debug handle, reason)] of the nodes of an imported program; an empty reason means that the backend takes it");
  module.def(
      "delegate_parts", &delegate_parts, py::arg("program"),
      "{method: [[debug handles of a part]]}: how the compiler would split the tagged nodes of an imported program");
  module.def(
      "content_hash",
      [](uintptr_t address, size_t nbytes) {
        const py::gil_scoped_release release;
        return content_hash(reinterpret_cast<const void*>(address), nbytes);
      },
      py::arg("address"), py::arg("nbytes"), "A number that changes with the bytes at an address");
  module.def("parse_program", &parse_program, py::arg("text"), "The program that a text of the IR describes");
  module.def("finish", &finish, py::arg("program"), py::arg("options") = py::dict(),
             "Plans the memory of a lowered program and lays out its file");
}

}  // namespace et::bindings
