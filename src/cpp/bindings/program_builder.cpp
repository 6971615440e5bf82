/// `_core.ProgramBuilder`: how export/importer/programs.py writes an ir::Program, node after node.
///
/// For: the importer only. It converts Python values to IR arguments and types; no rule of the IR is checked here
///      (ir/builder.h and ir/verifier.h do that).
///
///     builder = _core.ProgramBuilder()
///     method = builder.method("forward")
///     x = method.input("x", (6, [("s0", 1, 64), 8]))          # f32[s0:{1..64}, 8]; 6 is ScalarType::Float
///     handle, (y,) = method.node("aten::relu", [x], [("y", (6, [("s0", 1, 64), 8]))], ("relu", "", "model.py", 3,
///     "forward"), "") method.outputs([y]) method.finish()
///
/// A tensor's type is (dtype, dims) or (dtype, dims, dim_order). A dim is an int or (expression, min, max), where a max
/// of None means unbounded. Other types are "int", "double", "bool", "string", "none", and ("int", dim) for numbers. An
/// input that became part of the program carries its value: ("double", 2.5), ("bool", True), ("string", "mean").
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/compiler.h"
#include "bindings/errors.h"
#include "bindings/topics.h"
#include "ir/builder.h"
#include "ir/printer.h"

namespace et::bindings {
namespace {

namespace py = pybind11;

ir::Dim to_dim(py::handle item) {
  if (py::isinstance<py::int_>(item)) {
    return ir::Dim(item.cast<int64_t>());
  }
  const auto parts = item.cast<py::tuple>();
  const int64_t max = parts[2].is_none() ? ir::kUnbounded : parts[2].cast<int64_t>();
  return ir::Dim(parts[0].cast<std::string>(), parts[1].cast<int64_t>(), max);
}

ir::TensorType to_tensor_type(const py::tuple& parts) {
  std::vector<ir::Dim> dims;
  for (py::handle item : parts[1]) {
    dims.push_back(to_dim(item));
  }
  ir::TensorType type = ir::TensorType::contiguous(static_cast<ScalarType>(parts[0].cast<int>()), std::move(dims));
  if (parts.size() > 2) {
    type.dim_order = parts[2].cast<std::vector<uint8_t>>();
  }
  return type;
}

ir::Type to_type(py::handle description) {
  if (py::isinstance<py::str>(description)) {
    const auto name = description.cast<std::string>();
    const std::pair<const char*, ir::Kind> kinds[] = {{"int", ir::Kind::kInt},
                                                      {"double", ir::Kind::kDouble},
                                                      {"bool", ir::Kind::kBool},
                                                      {"string", ir::Kind::kString},
                                                      {"none", ir::Kind::kNone}};
    for (const auto& [text, kind] : kinds) {
      if (name == text) {
        return ir::Type::of(kind);
      }
    }
    throw py::value_error("no kind of value is called '" + name + "'");
  }
  const auto parts = description.cast<py::tuple>();
  if (py::isinstance<py::str>(parts[0])) {
    ir::Type type = to_type(parts[0]);
    switch (type.kind) {
      case ir::Kind::kDouble:
      case ir::Kind::kBool: type.number = parts[1].cast<double>(); break;
      case ir::Kind::kString: type.text = parts[1].cast<std::string>(); break;
      default: type.dim = to_dim(parts[1]);
    }
    return type;
  }
  return ir::Type::of(to_tensor_type(parts));
}

ir::Argument to_argument(py::handle item);

/// A list of doubles and a list of bools have alternatives of their own.
ir::Argument to_list(const py::sequence& items) {
  const auto all = [&items](auto is_kind) {
    for (py::handle item : items) {
      if (!is_kind(item)) {
        return false;
      }
    }
    return items.size() > 0;
  };
  if (all([](py::handle item) { return py::isinstance<py::float_>(item); })) {
    return {items.cast<ir::Argument::Doubles>()};
  }
  if (all([](py::handle item) { return py::isinstance<py::bool_>(item); })) {
    return {items.cast<ir::Argument::Bools>()};
  }
  ir::Argument::List list;
  list.reserve(items.size());
  for (py::handle item : items) {
    list.push_back(to_argument(item));
  }
  return {std::move(list)};
}

ir::Argument to_argument(py::handle item) {
  if (item.is_none()) {
    return {ir::Argument::None()};
  }
  if (py::isinstance<ir::Value>(item)) {
    return {item.cast<ir::Value*>()};
  }
  if (py::isinstance<py::bool_>(item)) {
    return {item.cast<bool>()};
  }
  if (py::isinstance<py::int_>(item)) {
    return {item.cast<int64_t>()};
  }
  if (py::isinstance<py::float_>(item)) {
    return {item.cast<double>()};
  }
  if (py::isinstance<py::str>(item)) {
    return {item.cast<std::string>()};
  }
  if (py::isinstance<py::sequence>(item)) {
    return to_list(item.cast<py::sequence>());
  }
  throw py::type_error("an argument of type " + py::str(py::type::of(item)).cast<std::string>() +
                       " has no form in the IR");
}

std::vector<ir::Argument> to_arguments(const py::sequence& items) {
  std::vector<ir::Argument> arguments;
  arguments.reserve(items.size());
  for (py::handle item : items) {
    arguments.push_back(to_argument(item));
  }
  return arguments;
}

/// (fx name, module path, file, line, function).
ir::Source to_source(const py::tuple& parts) {
  return {parts[0].cast<std::string>(), parts[1].cast<std::string>(), parts[2].cast<std::string>(),
          parts[3].cast<int32_t>(), parts[4].cast<std::string>()};
}

/// Bytes that stay where they are; `owner` is kept until the constant is gone. Released with the GIL held.
ir::Constant to_constant(const py::tuple& type, uintptr_t data, py::object owner) {
  ir::Constant constant;
  constant.type = to_tensor_type(type);
  constant.data = reinterpret_cast<const void*>(data);
  auto* kept = new py::object(std::move(owner));
  constant.keep_alive = std::shared_ptr<const void>(kept, [](const void* pointer) {
    py::gil_scoped_acquire gil;
    delete static_cast<const py::object*>(pointer);
  });
  return constant;
}

/// ``constant`` with its bytes in the .ptd ``file`` under ``symbol``; as it is when ``file`` is empty.
ir::Constant to_external(ir::Constant constant, const std::string& symbol, const std::string& file) {
  if (!file.empty()) {
    constant.external_key = symbol;
    constant.external_file = file;
  }
  return constant;
}

/// One method of a program on its way.
class MethodBuilder {
 public:
  MethodBuilder(std::shared_ptr<ir::Program> program, const std::string& name)
      : program_(std::move(program)), builder_(*program_, name) {}

  ir::Value* input(const std::string& name, py::handle type) { return builder_.add_input(name, to_type(type)); }

  ir::Value* constant(const std::string& symbol, const py::tuple& type, uintptr_t data, py::object owner,
                      const std::string& external_file) {
    return builder_.add_constant(symbol, to_external(to_constant(type, data, std::move(owner)), symbol, external_file));
  }

  ir::Value* buffer(const std::string& symbol, const py::tuple& type, uintptr_t data, py::object owner, bool is_shared,
                    const std::string& external_file) {
    ir::Constant initial = to_external(to_constant(type, data, std::move(owner)), symbol, external_file);
    return builder_.add_buffer(symbol, {std::move(initial), symbol, is_shared});
  }

  py::tuple node(const std::string& op, const py::sequence& args, const py::sequence& results, const py::tuple& source,
                 const std::string& tag) {
    std::vector<std::string> names;
    std::vector<ir::Type> types;
    split_results(results, names, types);
    return created(builder_.add_node(op, to_arguments(args), std::move(types), names, to_source(source), tag));
  }

  py::tuple delegate(const std::string& backend_id, const py::bytes& payload,
                     const std::vector<std::pair<std::string, py::bytes>>& compile_specs, const py::sequence& args,
                     const py::sequence& results, const py::tuple& source,
                     const std::map<uint32_t, std::pair<std::string, py::tuple>>& steps) {
    ir::Delegate delegate;
    delegate.backend_id = backend_id;
    delegate.payload = static_cast<std::string>(payload);
    for (const auto& [key, value] : compile_specs) {
      delegate.compile_specs.push_back({key, static_cast<std::string>(value)});
    }
    for (const auto& [id, step] : steps) {
      delegate.steps.push_back({id, {}, step.first, to_source(step.second)});
    }
    std::vector<std::string> names;
    std::vector<ir::Type> types;
    split_results(results, names, types);
    return created(
        builder_.add_delegate(std::move(delegate), to_arguments(args), std::move(types), names, to_source(source)));
  }

  std::vector<ir::Value*> begin_region(ir::Value* owner_result, const std::string& name, const py::sequence& inputs) {
    builder_.begin_region(owner_result->producer(), name);
    std::vector<ir::Value*> values;
    for (py::handle item : inputs) {
      const auto parts = item.cast<py::tuple>();
      values.push_back(builder_.add_input(parts[0].cast<std::string>(), to_type(parts[1])));
    }
    return values;
  }
  void end_region(const py::sequence& outputs) { builder_.end_region(to_arguments(outputs)); }

  void outputs(const py::sequence& values) { builder_.set_outputs(to_arguments(values)); }
  void buffer_write(const std::string& symbol, ir::Value* value) { builder_.add_buffer_write(symbol, value); }
  void input_write(size_t index, ir::Value* value) { builder_.add_input_write(index, value); }
  void specs(const std::string& inputs, const std::string& outputs) { builder_.set_specs(inputs, outputs); }

  void finish() {
    ir::Diagnostics diagnostics;
    const Result<ir::Graph*> graph = builder_.finish(&diagnostics);
    check(graph.error(), to_python(diagnostics));
  }

 private:
  static void split_results(const py::sequence& results, std::vector<std::string>& names,
                            std::vector<ir::Type>& types) {
    for (py::handle item : results) {
      const auto parts = item.cast<py::tuple>();
      names.push_back(parts[0].cast<std::string>());
      types.push_back(to_type(parts[1]));
    }
  }

  static py::tuple created(ir::Node* node) {
    py::list values;
    for (const auto& result : node->results()) {
      values.append(py::cast(result.get(), py::return_value_policy::reference));
    }
    return py::make_tuple(node->debug_handle, std::move(values));
  }

  std::shared_ptr<ir::Program> program_;
  ir::GraphBuilder builder_;
};

/// A constant method's values: numbers and strings; a tensor is the text "@symbol" of a constant added here.
void add_constant_method(ProgramHandle& handle, const std::string& name, const py::sequence& values) {
  handle.program->constant_methods.push_back({name, to_arguments(values)});
}

}  // namespace

std::vector<Diagnostic> to_python(const ir::Diagnostics& diagnostics) {
  std::vector<Diagnostic> converted;
  for (const ir::Diagnostic& from : diagnostics) {
    Diagnostic to;
    to.code = from.code;
    to.message = from.message;
    to.method = from.method;
    to.op = from.op;
    to.node = from.source.fx_name;
    to.module_path = from.source.module_path;
    to.file = from.source.file;
    to.line = from.source.line;
    converted.push_back(std::move(to));
  }
  return converted;
}

void init_program_builder(py::module_& module) {
  py::class_<ir::Value, std::unique_ptr<ir::Value, py::nodelete>>(module, "Value",
                                                                  "A value of the IR; lives as long as its program.")
      .def_property_readonly("name", [](const ir::Value& value) { return value.name; });

  py::class_<MethodBuilder>(module, "MethodBuilder", "Writes one method of a program.")
      .def("input", &MethodBuilder::input, py::arg("name"), py::arg("type"), py::return_value_policy::reference)
      .def("constant", &MethodBuilder::constant, py::arg("symbol"), py::arg("type"), py::arg("data"), py::arg("owner"),
           py::arg("external_file") = "", py::return_value_policy::reference)
      .def("buffer", &MethodBuilder::buffer, py::arg("symbol"), py::arg("type"), py::arg("data"), py::arg("owner"),
           py::arg("is_shared") = false, py::arg("external_file") = "", py::return_value_policy::reference)
      .def("node", &MethodBuilder::node, py::arg("op"), py::arg("args"), py::arg("results"), py::arg("source"),
           py::arg("tag") = "")
      .def("delegate", &MethodBuilder::delegate, py::arg("backend_id"), py::arg("payload"), py::arg("compile_specs"),
           py::arg("args"), py::arg("results"), py::arg("source"), py::arg("steps"))
      .def("begin_region", &MethodBuilder::begin_region, py::arg("owner_result"), py::arg("name"), py::arg("inputs"),
           py::return_value_policy::reference)
      .def("end_region", &MethodBuilder::end_region, py::arg("outputs"))
      .def("outputs", &MethodBuilder::outputs, py::arg("values"))
      .def("buffer_write", &MethodBuilder::buffer_write, py::arg("symbol"), py::arg("value"))
      .def("input_write", &MethodBuilder::input_write, py::arg("index"), py::arg("value"))
      .def("specs", &MethodBuilder::specs, py::arg("inputs"), py::arg("outputs"))
      .def("finish", &MethodBuilder::finish);

  py::class_<ProgramHandle>(module, "ProgramBuilder", "An ir::Program; compile() consumes it.")
      .def(py::init<>())
      .def(
          "method",
          [](ProgramHandle& handle, const std::string& name) {
            return std::make_unique<MethodBuilder>(handle.program, name);
          },
          py::arg("name"))
      .def(
          "constant_tensor",
          [](ProgramHandle& handle, const std::string& symbol, const py::tuple& type, uintptr_t data,
             py::object owner) {
            handle.program->constants.emplace(symbol, to_constant(type, data, std::move(owner)));
          },
          py::arg("symbol"), py::arg("type"), py::arg("data"), py::arg("owner"))
      .def("constant_method", &add_constant_method, py::arg("name"), py::arg("values"))
      .def(
          "named_data",
          [](ProgramHandle& handle, const std::string& key, const py::bytes& data, const std::string& external_file) {
            handle.program->named_data.push_back({key, static_cast<std::string>(data), std::nullopt, external_file});
          },
          py::arg("key"), py::arg("data"), py::arg("external_file") = "")
      .def("text", [](const ProgramHandle& handle) { return ir::to_text(*handle.program); });
}

}  // namespace et::bindings
