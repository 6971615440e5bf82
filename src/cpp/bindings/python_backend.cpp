#include "bindings/python_backend.h"

#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "bindings/errors.h"
#include "bindings/tensor_conversion.h"
#include "bindings/topics.h"
#include "runtime/event_tracer.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

using runtime::EValue;
using runtime::Tensor;

/// A delegate: the object that made it, and whatever that object's init returned.
struct Delegate {
  py::object implementation;
  py::object handle;
};

/// Never destroyed: registries point at the backends.
std::map<std::string, std::unique_ptr<PythonBackend>>& backends() {
  static auto* const map = new std::map<std::string, std::unique_ptr<PythonBackend>>;
  return *map;
}

struct Spec {
  std::string key;
  py::bytes value;
};

/// What Python sees of a context. The pointer is taken away when the call ends, so that keeping it does no harm.
template <typename Context>
struct ContextView {
  Context* context;
  Span<EValue* const> args;

  Context& get() const {
    if (context == nullptr) {
      throw CoreError(Error::InvalidState, "this context was for a call that has ended");
    }
    return *context;
  }
};
using InitView = ContextView<runtime::BackendInitContext>;
using ExecutionView = ContextView<runtime::BackendExecutionContext>;

/// Ends a view with the call.
template <typename View>
class ViewScope {
 public:
  explicit ViewScope(std::shared_ptr<View> view) : view_(std::move(view)) {}
  ~ViewScope() { view_->context = nullptr; }
  ViewScope(const ViewScope&) = delete;
  ViewScope& operator=(const ViewScope&) = delete;

 private:
  std::shared_ptr<View> view_;
};

py::object to_python(const EValue& value) {
  if (!value.is_tensor()) {
    return plain_to_python(value);
  }
  const Tensor tensor = value.to_tensor();
  // The owner is None: the memory is the method's. Constants and inputs that are lent read-only may not be written.
  return numpy_view(tensor.mutable_data_ptr(), tensor.scalar_type(), tensor.sizes(), tensor.strides(), py::none(),
                    !tensor.unsafe_impl()->read_only());
}

py::object resize(const ExecutionView& view, size_t index, const std::vector<int64_t>& sizes) {
  if (index >= view.args.size() || !view.args[index]->is_tensor()) {
    throw CoreError(Error::InvalidArgument, "argument " + std::to_string(index) + " of the delegate is no tensor");
  }
  check(runtime::resize_tensor(view.get().kernel, view.args[index]->to_tensor(), sizes));
  return to_python(*view.args[index]);
}

/// Adds `failed_step` to what Python sees of a context.
template <typename View, typename... Options>
void add_failed_step(py::class_<View, Options...>& type) {
  type.def_property(
      "failed_step", [](const View& view) { return view.get().failed_step; },
      [](const View& view, int32_t id) { view.get().failed_step = id; },
      "What failed, to be set before raising: a key of PreprocessResult.debug_handle_map; -1 is not known");
}

py::bytes named_data(const InitView& view, const std::string& key) {
  const runtime::FreeableBuffer data = unwrap(view.get().named_data->get(key));
  return py::bytes(reinterpret_cast<const char*>(data.data()), data.size());
}

void record_step(const ExecutionView& view, const std::variant<int32_t, std::string>& id, uint64_t start_ns,
                 uint64_t end_ns, const std::string& name) {
  if (runtime::EventTracer* tracer = view.get().tracer) {
    const auto* text = std::get_if<std::string>(&id);
    tracer->record_step(
        name, text == nullptr ? runtime::DelegateDebugId{std::get<int32_t>(id)} : runtime::DelegateDebugId{-1, *text},
        start_ns, end_ns);
  }
}

/// Runs `call` with the GIL; what it throws is kept for `check` and becomes an Error.
template <typename Call>
Error guarded(Call&& call) {
  const py::gil_scoped_acquire gil;
  try {
    call();
    return Error::Ok;
  } catch (py::error_already_set& error) {
    return hold_python_error(std::move(error));
  } catch (const CoreError& error) {
    log_message(LogLevel::kError, ET_FILE_NAME, __LINE__, "%s", error.what());
    return error.code();
  } catch (const std::exception& error) {
    log_message(LogLevel::kError, ET_FILE_NAME, __LINE__, "%s", error.what());
    return Error::Internal;
  }
}

}  // namespace

PythonBackend* PythonBackend::find(const std::string& name) {
  const auto found = backends().find(name);
  return found == backends().end() ? nullptr : found->second.get();
}

PythonBackend* PythonBackend::make(const std::string& name, py::object implementation) {
  std::unique_ptr<PythonBackend>& slot = backends()[name];
  slot.reset(new PythonBackend(name, std::move(implementation)));
  return slot.get();
}

void PythonBackend::forget(PythonBackend* backend) { backends().erase(std::string(backend->name())); }

bool PythonBackend::is_available() const {
  bool available = true;
  const Error error = guarded([&] {
    if (py::hasattr(implementation_, "is_available")) {
      available = py::bool_(implementation_.attr("is_available")());
    }
  });
  return error == Error::Ok && available;
}

Result<runtime::DelegateHandle*> PythonBackend::init(runtime::BackendInitContext& context,
                                                     runtime::FreeableBuffer* processed,
                                                     Span<const runtime::CompileSpec> specs) const {
  Delegate* made = nullptr;
  ET_RETURN_IF_ERROR(guarded([&] {
    const auto view = std::make_shared<InitView>(InitView{&context, context.args});
    const ViewScope<InitView> scope(view);
    std::vector<Spec> given;
    for (const runtime::CompileSpec& spec : specs) {
      given.push_back(
          {std::string(spec.key), py::bytes(reinterpret_cast<const char*>(spec.value.data()), spec.value.size())});
    }
    const py::bytes payload(reinterpret_cast<const char*>(processed->data()), processed->size());
    py::object handle = implementation_.attr("init")(view, payload, given);
    made = new Delegate{implementation_, std::move(handle)};
  }));
  return static_cast<runtime::DelegateHandle*>(made);
}

Error PythonBackend::execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                             Span<EValue* const> args) const {
  return guarded([&] {
    const auto view = std::make_shared<ExecutionView>(ExecutionView{&context, args});
    const ViewScope<ExecutionView> scope(view);
    py::tuple values(args.size());  // no list: what is put into one would go nowhere
    for (size_t i = 0; i < args.size(); ++i) {
      values[i] = to_python(*args[i]);
    }
    const Delegate& delegate = *static_cast<Delegate*>(handle);
    delegate.implementation.attr("execute")(view, delegate.handle, values);
  });
}

void PythonBackend::destroy(runtime::DelegateHandle* handle) const {
  const py::gil_scoped_acquire gil;
  const std::unique_ptr<Delegate> delegate(static_cast<Delegate*>(handle));
  if (delegate == nullptr || !py::hasattr(delegate->implementation, "destroy")) {
    return;
  }
  try {
    delegate->implementation.attr("destroy")(delegate->handle);
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("destroy of a backend written in Python");
  }
}

void init_python_backend(py::module_& module) {
  py::class_<Spec>(module, "CompileSpec", "A key and bytes that the partitioner gave")
      .def_readonly("key", &Spec::key)
      .def_readonly("value", &Spec::value);
  py::class_<InitView, std::shared_ptr<InitView>> init(module, "BackendInitContext", "What init of a backend may use");
  init.def_property_readonly("method_name", [](const InitView& view) { return std::string(view.get().method_name); })
      .def_property_readonly("delegate_index", [](const InitView& view) { return view.get().delegate_index; })
      .def("named_data", &named_data, py::arg("key"), "Bytes of an entry of the program's named data");
  add_failed_step(init);
  py::class_<ExecutionView, std::shared_ptr<ExecutionView>> execute(module, "BackendExecutionContext",
                                                                    "What execute of a backend may use");
  execute
      .def_property_readonly("method_name",
                             [](const ExecutionView& view) { return std::string(view.get().method_name); })
      .def("record_step", &record_step, py::arg("id"), py::arg("start_ns"), py::arg("end_ns"), py::arg("name") = "",
           "Tells the tracer, if there is one, when one of the delegate's own operators ran (time.monotonic_ns). `id` "
           "is "
           "a key of PreprocessResult.debug_handle_map")
      .def_property_readonly("instruction", [](const ExecutionView& view) { return view.get().instruction; })
      .def("resize", &resize, py::arg("index"), py::arg("sizes"),
           "Gives output `index` of the call its sizes; the array over its memory");
  add_failed_step(execute);
}

}  // namespace et::bindings
