/// Program, Session, Method and their descriptions as Python classes.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/errors.h"
#include "bindings/runtime_method.h"
#include "bindings/runtime_registry.h"
#include "bindings/tensor_conversion.h"
#include "bindings/topics.h"
#include "devtools/host/etdump_gen.h"
#include "kernels/cortex_m/register.h"
#include "kernels/portable/register.h"
#include "kernels/prim/register.h"
#include "kernels/quantized/register.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

using runtime::HostMethod;
using runtime::HostMethodOptions;
using runtime::HostProgram;
using runtime::HostSession;
using runtime::MethodMeta;
using runtime::Tag;

/// A tensor that a method takes or gives; a copy, so that it needs no Program.
struct TensorDescription {
  std::string name;
  ScalarType dtype = ScalarType::Byte;
  std::vector<int64_t> sizes;                       // upper bounds
  std::vector<std::pair<int64_t, int64_t>> bounds;  // [rank], lower and upper
  std::vector<std::string> symbols;                 // [rank], "" where a size has no name
  std::vector<int> dim_order;
  bool is_dynamic = false;
  bool is_memory_planned = false;
  size_t nbytes = 0;
};

TensorDescription describe_tensor(const runtime::TensorInfo& info, std::string_view name) {
  TensorDescription out;
  out.name = name;
  out.dtype = info.dtype;
  out.sizes.assign(info.sizes.begin(), info.sizes.end());
  out.dim_order.assign(info.dim_order.begin(), info.dim_order.end());
  out.is_dynamic = info.dynamism != runtime::TensorShapeDynamism::kStatic;
  out.is_memory_planned = info.is_memory_planned;
  out.nbytes = info.nbytes;
  const int64_t lowest = 0;
  for (const int64_t size : out.sizes) {
    out.bounds.emplace_back(out.is_dynamic ? lowest : size, size);
    out.symbols.emplace_back();
  }
  return out;
}

/// What a method is, without loading it. Keeps the program alive.
class MethodDescription {
 public:
  MethodDescription(std::shared_ptr<HostProgram> program, MethodMeta meta)
      : program_(std::move(program)), meta_(meta) {}

  std::string name() const { return std::string(meta_.name()); }
  size_t num_inputs() const { return meta_.num_inputs(); }
  size_t num_outputs() const { return meta_.num_outputs(); }

  /// "Tensor", "Int", …: what kind of value it is.
  std::string input_kind(size_t i) const {
    in_range("input", i, num_inputs());
    return runtime::to_string(meta_.input_tag(i));
  }
  std::string output_kind(size_t i) const {
    in_range("output", i, num_outputs());
    return runtime::to_string(meta_.output_tag(i));
  }
  std::string input_name(size_t i) const {
    in_range("input", i, num_inputs());
    return std::string(meta_.input_name(i));
  }
  std::string output_name(size_t i) const {
    in_range("output", i, num_outputs());
    return std::string(meta_.output_name(i));
  }
  TensorDescription input_tensor(size_t i) const {
    is_tensor("input", i, num_inputs(), i < num_inputs() ? meta_.input_tag(i) : Tag::kNone);
    TensorDescription out = describe_tensor(unwrap(meta_.input_tensor_info(i)), meta_.input_name(i));
    for (size_t d = 0; d < out.sizes.size(); ++d) {
      const runtime::SizeBounds bounds = meta_.input_bounds(i, d);
      out.bounds[d] = {bounds.lower, bounds.upper};
      out.symbols[d] = bounds.symbol;
    }
    return out;
  }
  TensorDescription output_tensor(size_t i) const {
    is_tensor("output", i, num_outputs(), i < num_outputs() ? meta_.output_tag(i) : Tag::kNone);
    return describe_tensor(unwrap(meta_.output_tensor_info(i)), meta_.output_name(i));
  }

  size_t num_attributes() const { return meta_.num_attributes(); }
  TensorDescription attribute_tensor(size_t i) const {
    in_range("attribute", i, num_attributes());
    return describe_tensor(unwrap(meta_.attribute_tensor_info(i)), meta_.attribute_name(i));
  }

  std::vector<uint64_t> planned_buffer_sizes() const {
    std::vector<uint64_t> sizes;
    for (size_t i = 0; i < meta_.num_memory_planned_buffers(); ++i) {
      sizes.push_back(meta_.memory_planned_buffer_size(i));
    }
    return sizes;
  }
  /// Memory ids of planned buffers that belong to the session.
  std::vector<size_t> state_buffers() const {
    std::vector<size_t> ids;
    for (size_t i = 0; i < meta_.num_memory_planned_buffers(); ++i) {
      if (meta_.memory_planned_buffer_is_state(i)) {
        ids.push_back(i + 1);
      }
    }
    return ids;
  }
  bool uses_state() const { return meta_.uses_state(); }
  size_t num_instructions() const { return meta_.num_instructions(); }
  std::vector<std::string> operators() const {
    std::vector<std::string> names;
    char buffer[256];
    for (size_t i = 0; i < meta_.num_operators(); ++i) {
      names.emplace_back(meta_.operator_name(i, buffer));
    }
    return names;
  }
  std::vector<std::string> backends() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < meta_.num_backends(); ++i) {
      names.emplace_back(meta_.backend_name(i));
    }
    return names;
  }
  std::string input_structure() const { return std::string(meta_.input_structure()); }
  std::string output_structure() const { return std::string(meta_.output_structure()); }

 private:
  void in_range(const char* kind, size_t i, size_t count) const {
    if (i >= count) {
      throw py::index_error("method '" + name() + "' has " + std::to_string(count) + " " + kind + "s, there is no " +
                            kind + " " + std::to_string(i));
    }
  }
  void is_tensor(const char* kind, size_t i, size_t count, Tag tag) const {
    in_range(kind, i, count);
    if (tag != Tag::kTensor) {
      throw CoreError(Error::InvalidType, std::string(kind) + " " + std::to_string(i) + " of method '" + name() +
                                              "' is a " + runtime::to_string(tag) + ", not a tensor");
    }
  }

  std::shared_ptr<HostProgram> program_;
  MethodMeta meta_;
};

/// The kernels that projects for microcontrollers compile, in the order in which those register them: with them a host
/// chooses and computes what such a project does. Errors (CoreError): those of registering them.
const runtime::KernelRegistry& firmware_kernels() {
  static const runtime::KernelRegistry* const kernels = [] {
    static runtime::KernelRegistry registry;
    check(kernels::cortex_m::register_cortex_m_kernels(registry));
    check(kernels::portable::register_portable_kernels(registry));
    check(kernels::quantized::register_quantized_kernels(registry));
    check(kernels::prim::register_prim_kernels(registry));
    return &registry;
  }();
  return *kernels;
}

/// What Program.from_… takes beside the program.
struct Profile {
  bool is_on = false;
  size_t debug_nbytes = 0;
};

runtime::HostOptions options_for(std::vector<std::string> data_files, bool mmap, const Profile& profile,
                                 std::string pack_cache) {
  process_runtime();
  runtime::HostOptions options = extension::process_options();
  options.data_files = std::move(data_files);
  options.mode = mmap ? runtime::LoadMode::kMmap : runtime::LoadMode::kFile;
  options.pack_cache = std::move(pack_cache);
  if (profile.is_on) {
    auto tracer = std::make_shared<devtools::ETDumpGen>();
    if (profile.debug_nbytes > 0) {
      check(tracer->record_values(profile.debug_nbytes));
    }
    options.tracer = std::move(tracer);
  }
  return options;
}

std::shared_ptr<HostProgram> load_file(const std::string& path, std::vector<std::string> data_files, bool mmap,
                                       bool enable_etdump, size_t debug_nbytes, std::string pack_cache) {
  const runtime::HostOptions options =
      options_for(std::move(data_files), mmap, {enable_etdump, debug_nbytes}, std::move(pack_cache));
  return load_without_gil([&] { return HostProgram::from_file(path, options); });
}

std::shared_ptr<HostProgram> load_bytes(const py::buffer& bytes, std::vector<std::string> data_files,
                                        bool enable_etdump, size_t debug_nbytes, bool has_firmware_kernels,
                                        std::string pack_cache) {
  runtime::HostOptions options =
      options_for(std::move(data_files), true, {enable_etdump, debug_nbytes}, std::move(pack_cache));
  if (has_firmware_kernels) {
    options.kernels = &firmware_kernels();
    options.pool = nullptr;
  }
  // The view holds the bytes: of a bytearray, too, which then cannot be resized while the program lives.
  std::shared_ptr<Py_buffer> view(new Py_buffer{}, [](Py_buffer* held) {
    const py::gil_scoped_acquire gil;
    PyBuffer_Release(held);
    delete held;
  });
  if (PyObject_GetBuffer(bytes.ptr(), view.get(), PyBUF_SIMPLE) != 0) {
    throw py::error_already_set();
  }
  const void* data = view->buf;
  const size_t size = static_cast<size_t>(view->len);
  std::shared_ptr<const void> keep_alive = std::move(view);
  if (static_cast<Py_buffer*>(const_cast<void*>(keep_alive.get()))->readonly == 0) {
    // What has been verified must not change afterwards.
    std::shared_ptr<char[]> copy(new char[size]);
    std::copy_n(static_cast<const char*>(data), size, copy.get());
    data = copy.get();
    keep_alive = std::move(copy);
  }
  return load_without_gil([&] { return HostProgram::from_buffer(std::move(keep_alive), data, size, options); });
}

std::vector<std::string> method_names(const HostProgram& program) {
  std::vector<std::string> names;
  for (size_t i = 0; i < program.program().num_methods(); ++i) {
    names.emplace_back(program.program().method_name(i));
  }
  return names;
}

std::vector<std::pair<std::string, uint64_t>> named_data(const HostProgram& program) {
  std::vector<std::pair<std::string, uint64_t>> entries;
  const runtime::NamedDataMap& map = program.program().named_data();
  for (size_t i = 0; i < map.num_entries(); ++i) {
    const runtime::NamedDataEntry entry = map.entry(i);
    entries.emplace_back(std::string(entry.key), entry.nbytes);
  }
  return entries;
}

py::bytes read_named_data(const HostProgram& program, const std::string& key) {
  const runtime::FreeableBuffer bytes = unwrap(program.program().named_data().get(key));
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::unique_ptr<CallableMethod> load_method(HostProgram& program, const std::string& name,
                                            std::shared_ptr<HostSession> session, uint64_t seed,
                                            uint64_t max_backward_jumps) {
  HostMethodOptions options;
  options.seed = seed;
  options.max_backward_jumps = max_backward_jumps;
  return std::make_unique<CallableMethod>(
      load_without_gil([&] { return program.load_method(name, std::move(session), options); }));
}

/// The tracer that options_for made; nullptr: none.
devtools::ETDumpGen* etdump_of(const HostProgram& program) {
  return static_cast<devtools::ETDumpGen*>(program.options().tracer.get());
}

devtools::ETDumpGen& require_etdump(const HostProgram& program) {
  devtools::ETDumpGen* const dump = etdump_of(program);
  if (dump == nullptr) {
    throw CoreError(Error::InvalidState, "nothing was recorded: load the program with enable_etdump=True");
  }
  return *dump;
}

py::bytes etdump_bytes(const HostProgram& program) {
  const std::vector<uint8_t> bytes = unwrap(require_etdump(program).to_bytes());
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void bind_descriptions(py::module_& module) {
  py::class_<TensorDescription>(module, "TensorInfo", "A tensor that a method takes or gives")
      .def_readonly("name", &TensorDescription::name)
      .def_property_readonly("dtype", [](const TensorDescription& info) { return static_cast<int>(info.dtype); })
      .def_readonly("sizes", &TensorDescription::sizes)
      .def_readonly("bounds", &TensorDescription::bounds)
      .def_readonly("symbols", &TensorDescription::symbols)
      .def_readonly("dim_order", &TensorDescription::dim_order)
      .def_readonly("is_dynamic", &TensorDescription::is_dynamic)
      .def_readonly("is_memory_planned", &TensorDescription::is_memory_planned)
      .def_readonly("nbytes", &TensorDescription::nbytes);
  py::class_<MethodDescription>(module, "MethodMeta", "What a method takes, gives and needs")
      .def_property_readonly("name", &MethodDescription::name)
      .def_property_readonly("num_inputs", &MethodDescription::num_inputs)
      .def_property_readonly("num_outputs", &MethodDescription::num_outputs)
      .def("input_kind", &MethodDescription::input_kind, py::arg("index"))
      .def("output_kind", &MethodDescription::output_kind, py::arg("index"))
      .def("input_name", &MethodDescription::input_name, py::arg("index"))
      .def("output_name", &MethodDescription::output_name, py::arg("index"))
      .def("input_tensor", &MethodDescription::input_tensor, py::arg("index"))
      .def("output_tensor", &MethodDescription::output_tensor, py::arg("index"))
      .def_property_readonly("num_attributes", &MethodDescription::num_attributes)
      .def("attribute_tensor", &MethodDescription::attribute_tensor, py::arg("index"))
      .def_property_readonly("planned_buffer_sizes", &MethodDescription::planned_buffer_sizes)
      .def_property_readonly("state_buffers", &MethodDescription::state_buffers)
      .def_property_readonly("uses_state", &MethodDescription::uses_state)
      .def_property_readonly("num_instructions", &MethodDescription::num_instructions)
      .def_property_readonly("operators", &MethodDescription::operators)
      .def_property_readonly("backends", &MethodDescription::backends)
      .def_property_readonly("input_structure", &MethodDescription::input_structure)
      .def_property_readonly("output_structure", &MethodDescription::output_structure);
}

}  // namespace

/// As training's state: a view that keeps the method alive.
py::object attribute_of(const py::object& self, const std::string& name) {
  runtime::Method& method = self.cast<CallableMethod&>().host().method();
  for (size_t i = 0; i < method.num_attributes(); ++i) {
    const runtime::Method::Attribute found = method.attribute(i);
    if (found.name == name) {
      return live_view(TensorLibrary::of_process(), found.tensor, self);
    }
  }
  return py::none();
}

void init_runtime_program(py::module_& module) {
  bind_descriptions(module);
  py::class_<HostSession, std::shared_ptr<HostSession>>(module, "Session", "Mutable state that methods share")
      .def("reset", [](HostSession& session) { check(session.reset()); }, "Puts every buffer to its initial value");
  py::class_<CallableMethod>(module, "Method", "A method ready to run")
      .def("execute", &CallableMethod::execute, py::arg("inputs"), py::arg("out") = py::none(),
           "Runs the method; a list with its outputs")
      .def("execute_observed", &CallableMethod::execute_observed, py::arg("inputs"), py::arg("observer"),
           "Runs the method and calls observer(instruction, operator, arguments before, {index: written}, module path, "
           "file, line) after each instruction that calls an operator or a delegate")
      .def("cancel", &CallableMethod::cancel, "Makes a running execution end soon; from any thread")
      .def("input_value", &CallableMethod::input_value, py::arg("index"),
           "Value of an input that is no tensor, as fixed at export or as last given; None for tensors")
      .def("attribute", &attribute_of, py::arg("name"), "A live view of a tensor of the state, or None")
      .def("reset_state", &CallableMethod::reset_state, "Puts the session's mutable buffers to their initial values")
      .def_property_readonly(
          "meta",
          [](CallableMethod& method) { return MethodDescription(method.host().program(), method.host().meta()); })
      .def_property_readonly("session", [](CallableMethod& method) { return method.host().session(); })
      .def_property_readonly("planned_nbytes", [](CallableMethod& method) { return method.host().planned_nbytes(); })
      .def_property_readonly("other_nbytes", [](CallableMethod& method) { return method.host().other_nbytes(); });
  py::class_<HostProgram, std::shared_ptr<HostProgram>>(module, "Program", "A loaded and verified file")
      .def_static("from_file", &load_file, py::arg("path"), py::arg("data_files") = std::vector<std::string>(),
                  py::arg("mmap") = true, py::arg("enable_etdump") = false, py::arg("debug_nbytes") = 0,
                  py::arg("pack_cache") = "")
      .def_static("from_bytes", &load_bytes, py::arg("bytes"), py::arg("data_files") = std::vector<std::string>(),
                  py::arg("enable_etdump") = false, py::arg("debug_nbytes") = 0, py::arg("firmware_kernels") = false,
                  py::arg("pack_cache") = "")
      .def_property_readonly("packed_nbytes", &HostProgram::packed_nbytes)
      .def_property_readonly("has_etdump", [](const HostProgram& program) { return etdump_of(program) != nullptr; })
      .def("etdump_bytes", &etdump_bytes, "The ETDump of what was recorded so far")
      .def(
          "save_etdump",
          [](const HostProgram& program, const std::string& path, const std::string& debug_path) {
            check(require_etdump(program).save(path, debug_path));
          },
          py::arg("path"), py::arg("debug_path") = "", "Writes the ETDump, and the debug buffer beside it")
      .def(
          "reset_etdump", [](const HostProgram& program) { require_etdump(program).clear(); },
          "Forgets what was recorded")
      .def_property_readonly("method_names", &method_names)
      .def_property_readonly("named_data", &named_data)
      .def("read_named_data", &read_named_data, py::arg("key"))
      .def(
          "meta",
          [](HostProgram& program, const std::string& name) {
            return MethodDescription(program.shared_from_this(), unwrap(program.program().method_meta(name)));
          },
          py::arg("name"))
      .def("load_method", &load_method, py::arg("name"), py::arg("session") = nullptr, py::arg("seed") = 0,
           py::arg("max_backward_jumps") = runtime::MethodOptions{}.max_backward_jumps)
      .def("new_session", [](HostProgram& program) { return load_without_gil([&] { return program.new_session(); }); });
}

}  // namespace et::bindings
