#include "bindings/runtime_method.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "bindings/errors.h"
#include "bindings/interrupt.h"
#include "runtime/unboxing.h"
#include "threads/thread_pool.h"

namespace py = pybind11;

namespace et::bindings {

using runtime::EValue;
using runtime::kMaxRank;
using runtime::Tag;
using runtime::Tensor;
using runtime::TensorImpl;
using runtime::TensorInfo;
using runtime::TensorShapeDynamism;

namespace {

const char* type_name(py::handle value) { return Py_TYPE(value.ptr())->tp_name; }

/// "a list", "an int", "None".
std::string kind_of(py::handle value) {
  if (value.is_none()) {
    return "None";
  }
  const std::string name = type_name(value);
  return (std::strchr("aeio", name.front()) == nullptr ? "a " : "an ") + name;
}

/// The items of a list or tuple, as they are now: reading a value may run Python code, which may change the list. Other
/// sequences are refused: a tensor is one, and its rows are never what is meant.
py::tuple items_of(py::handle sequence, const char* what) {
  if (PyList_Check(sequence.ptr()) == 0 && PyTuple_Check(sequence.ptr()) == 0) {
    throw CoreError(Error::InvalidType,
                    std::string(what) + " must be a list or tuple with one value each, not " + kind_of(sequence));
  }
  return py::reinterpret_steal<py::tuple>(PySequence_Tuple(sequence.ptr()));
}

bool is_numpy_bool(py::handle value) {
  const char* const name = type_name(value);
  return std::strcmp(name, "numpy.bool") == 0 || std::strcmp(name, "numpy.bool_") == 0;
}

/// The tensor in `view`, or with other strides over the same kind of elements.
TensorView dense_view(void* data, ScalarType dtype, Span<const int64_t> sizes, Span<const uint8_t> dim_order) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.rank = sizes.size();
  std::copy(sizes.begin(), sizes.end(), view.sizes);
  runtime::strides_from_dim_order(sizes, dim_order, view.byte_strides);
  for (size_t d = 0; d < view.rank; ++d) {
    view.byte_strides[d] *= static_cast<int64_t>(element_size(dtype));
  }
  return view;
}

}  // namespace

/// The one call that a method can be in.
class CallableMethod::Call {
 public:
  explicit Call(CallableMethod& method) : method_(method) {
    if (method_.busy_.exchange(true, std::memory_order_acquire)) {
      throw CoreError(Error::InvalidState,
                      "method '" + method_.name_ +
                          "' is running; give each thread, and a backend that calls it while it "
                          "runs, a method of its own (load_method), with a session of its own when "
                          "it has state");
    }
  }
  ~Call() {
    for (Input& input : method_.inputs_) {
      input.tensor.release();
    }
    for (size_t i = 0; i < method_.outputs_.size(); ++i) {
      Output& output = method_.outputs_[i];
      output.given.release();
      output.is_given = output.is_direct = false;
      output.block = OutputBlock();
    }
    method_.busy_.store(false, std::memory_order_release);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  CallableMethod& method_;
};

CallableMethod::CallableMethod(std::unique_ptr<runtime::HostMethod> method, size_t num_outputs)
    : method_(std::move(method)) {
  const runtime::MethodMeta meta = method_->meta();
  name_ = meta.name();
  const auto describe_tensor = [](Slot& slot, const TensorInfo& info) {
    slot.dtype = info.dtype;
    slot.dynamism = info.dynamism;
    slot.rank = info.sizes.size();
    slot.bound_nbytes = info.nbytes;
    std::copy(info.dim_order.begin(), info.dim_order.end(), slot.dim_order);
    std::copy(info.sizes.begin(), info.sizes.end(), slot.bound_sizes);
  };
  inputs_.resize(meta.num_inputs());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].tag = meta.input_tag(i);
    inputs_[i].name = meta.input_name(i);
    if (inputs_[i].tag == Tag::kTensor) {
      describe_tensor(inputs_[i], unwrap(meta.input_tensor_info(i)));
    }
  }
  outputs_.resize(std::min(num_outputs, meta.num_outputs()));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].tag = meta.output_tag(i);
    outputs_[i].name = meta.output_name(i);
    if (outputs_[i].tag == Tag::kTensor) {
      describe_tensor(outputs_[i], unwrap(meta.output_tensor_info(i)));
      if (SpareOutput::is_worthwhile(outputs_[i].bound_nbytes)) {
        outputs_[i].spare = std::make_shared<SpareOutput>();
      }
    }
  }
}

std::string CallableMethod::title(const char* kind, const Slot& slot, size_t i) const {
  std::string text = std::string(kind) + " " + std::to_string(i);
  if (!slot.name.empty()) {
    text += " ('" + slot.name + "')";
  }
  return text + " of method '" + name_ + "'";
}

// Inputs

EValue CallableMethod::number(const Input& input, size_t i, py::handle value) {
  PyObject* const object = value.ptr();
  if (input.tag == Tag::kBool && (PyBool_Check(object) != 0 || is_numpy_bool(value))) {
    return EValue(PyObject_IsTrue(object) == 1);
  }
  if (input.tag == Tag::kInt && PyIndex_Check(object) != 0) {
    const py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(object));
    const int64_t integer = index ? PyLong_AsLongLong(index.ptr()) : -1;
    if (PyErr_Occurred() == nullptr) {
      return EValue(integer);
    }
    PyErr_Clear();
  }
  if (input.tag == Tag::kDouble && PyUnicode_Check(object) == 0) {
    const double number = PyFloat_AsDouble(object);
    if (PyErr_Occurred() == nullptr) {
      return EValue(number);
    }
    PyErr_Clear();
  }
  const char* const wanted = input.tag == Tag::kBool  ? "a bool"
                             : input.tag == Tag::kInt ? "an int of 64 bits"
                                                      : "a float";
  throw CoreError(Error::InvalidType,
                  title("input", input, i) + " is " + std::string(py::repr(value)) + ", the method takes " + wanted);
}

void CallableMethod::set_input(size_t i, py::handle value) {
  Input& input = inputs_[i];
  switch (input.tag) {
    case Tag::kTensor: set_tensor(input, i, value); return;
    case Tag::kInt:
    case Tag::kBool:
    case Tag::kDouble: set_plain(input, i, value, number(input, i, value)); return;
    case Tag::kString:
      if (PyUnicode_Check(value.ptr()) == 0) {
        throw CoreError(Error::InvalidType,
                        title("input", input, i) + " is " + kind_of(value) + ", the method takes a string");
      }
      input.text = py::cast<std::string>(value);
      input.text_view = input.text;
      set_plain(input, i, value, EValue(&input.text_view));
      return;
    case Tag::kNone:
      if (!value.is_none()) {
        throw CoreError(Error::InvalidType, title("input", input, i) + " is " + kind_of(value) +
                                                ", it was None when the model was exported and must be None again");
      }
      set_plain(input, i, value, EValue());
      return;
    default:
      throw CoreError(Error::NotSupported, title("input", input, i) + " is a " + runtime::to_string(input.tag) +
                                               ", which cannot be passed from Python");
  }
}

void CallableMethod::set_plain(const Input& input, size_t i, py::handle given, const EValue& value) {
  const Error error = method().set_input(value, i);
  if (error == Error::InvalidArgument) {
    throw CoreError(error, title("input", input, i) + " is " + std::string(py::repr(given)) + ", it was " +
                               std::string(py::repr(input_value(i))) +
                               " when the model was exported and became part of the program; pass that, or export with "
                               "the other value");
  }
  check(error);
}

py::object CallableMethod::input_value(size_t i) {
  return i < inputs_.size() && inputs_[i].tag != Tag::kTensor ? plain_to_python(method().get_input(i)) : py::none();
}

void CallableMethod::set_tensor(Input& input, size_t i, py::handle value) {
  bool is_tensor = false;
  try {
    is_tensor = !value.is_none() && input.tensor.borrow(value);
  } catch (const CoreError& error) {
    throw CoreError(error.code(), title("input", input, i) + ": " + error.message());
  }
  if (!is_tensor) {
    throw CoreError(Error::InvalidType, title("input", input, i) + " is " + kind_of(value) +
                                            ", the method takes a tensor " +
                                            describe(input.dtype, {input.bound_sizes, input.rank}));
  }
  const TensorView* view = &input.tensor.view();
  uint8_t identity[kMaxRank];
  const uint8_t* dim_order = input.dim_order;
  if (view->rank != input.rank) {  // the method refuses it; any order will do for saying so
    std::iota(identity, identity + kMaxRank, uint8_t{0});
    dim_order = identity;
  }
  void* data = view->data;
  input.is_copied = !view->is_dense({dim_order, view->rank});
  if (input.is_copied) {
    input.tensor.resolve_lazy_bits();
    const size_t nbytes = view->nbytes();
    if (input.scratch_nbytes < nbytes || input.scratch_nbytes == 0) {
      input.scratch = OutputBlock::allocate(nbytes);
      input.scratch_nbytes = nbytes;
    }
    data = input.scratch.data();
    copy_strided(*view, dense_view(data, view->dtype, {view->sizes, view->rank}, {dim_order, view->rank}));
  }
  std::copy(view->sizes, view->sizes + view->rank, input.sizes);
  input.impl = TensorImpl(view->dtype, view->rank, input.sizes, input.strides, dim_order, data, view->nbytes());
  input.impl.set_read_only(view->read_only);
  check(method().set_input(EValue(Tensor(&input.impl)), i));
}

void CallableMethod::write_back(size_t i) {
  const Input& input = inputs_[i];
  if (input.is_copied && method().writes_input(i)) {
    const TensorView& view = input.tensor.view();
    copy_strided(dense_view(input.scratch.data(), view.dtype, {view.sizes, view.rank}, {input.dim_order, input.rank}),
                 view);
  }
}

TensorLibrary CallableMethod::library() const {
  bool any = false;
  for (const Input& input : inputs_) {
    if (input.tag == Tag::kTensor) {
      any = true;
      if (!input.tensor.library().is_numpy()) {
        return input.tensor.library();
      }
    }
  }
  return any ? TensorLibrary() : TensorLibrary::of_process();
}

// Outputs

void CallableMethod::take_out(py::handle out) {
  const py::tuple items = items_of(out, "out");
  if (items.size() != outputs_.size()) {
    throw CoreError(Error::InvalidArgument, "out has " + std::to_string(items.size()) + " items, method '" + name_ +
                                                "' has " + std::to_string(outputs_.size()) +
                                                " outputs; None stands for one that is to be made");
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Output& output = outputs_[i];
    const py::handle item = PyTuple_GET_ITEM(items.ptr(), static_cast<py::ssize_t>(i));
    if (item.is_none()) {
      continue;
    }
    const std::string place = "out[" + std::to_string(i) + "]";
    bool is_tensor = false;
    try {
      is_tensor = output.tag == Tag::kTensor && output.given.borrow(item);
    } catch (const CoreError& error) {
      throw CoreError(error.code(), place + ": " + error.message());
    }
    if (!is_tensor) {
      throw CoreError(Error::InvalidType, place + " is " + kind_of(item) + ", " + title("output", output, i) +
                                              " is a " + runtime::to_string(output.tag));
    }
    const TensorView& view = output.given.view();
    const bool same_sizes = output.dynamism != TensorShapeDynamism::kStatic ||
                            std::equal(view.sizes, view.sizes + view.rank, output.bound_sizes);
    if (view.dtype != output.dtype || view.rank != output.rank || !same_sizes) {
      throw CoreError(Error::InvalidArgument, place + " is " + describe(view.dtype, {view.sizes, view.rank}) + ", " +
                                                  title("output", output, i) + " is " +
                                                  describe(output.dtype, {output.bound_sizes, output.rank}));
    }
    if (view.read_only) {
      throw CoreError(Error::InvalidArgument, place + " is read-only");
    }
    const bool is_dense = view.is_dense({output.dim_order, output.rank});
    if (!is_dense && view.elements_share_memory()) {
      throw CoreError(Error::InvalidArgument,
                      place +
                          " is an expanded tensor or one of sliding windows, whose elements share memory; pass one "
                          "that owns all of its elements");
    }
    if (!is_dense && output.given.is_negated()) {
      throw CoreError(Error::InvalidArgument,
                      place + " is a view that negates what is read from it; pass a tensor of its own memory");
    }
    for (size_t k = 0; k < i; ++k) {
      if (outputs_[k].is_given && outputs_[k].given.view().shares_elements(view)) {
        throw CoreError(Error::InvalidArgument, "out[" + std::to_string(k) + "] and out[" + std::to_string(i) +
                                                    "] share memory; give each output memory of its own");
      }
    }
    output.is_given = true;
    // An output over an input would be written before the input has been read for the last time.
    output.is_direct = output.dynamism != TensorShapeDynamism::kDynamicUnbound && is_dense &&
                       std::none_of(inputs_.begin(), inputs_.end(), [&](const Input& input) {
                         return input.tag == Tag::kTensor && input.tensor.view().overlaps(view);
                       });
  }
}

void CallableMethod::prepare_output(size_t i, TensorLibrary library) {
  Output& output = outputs_[i];
  if (output.tag != Tag::kTensor) {
    return;
  }
  if (output.is_direct) {
    check(method().set_output_data_ptr(output.given.view().data, output.given.view().nbytes(), i));
    return;
  }
  if (!output.is_given && library.is_numpy()) {
    check_numpy_dtype(output.dtype);
  }
  if (output.dynamism == TensorShapeDynamism::kDynamicUnbound) {
    return;  // its size is known afterwards
  }
  output.block = OutputBlock::allocate(output.bound_nbytes, output.spare);
  check(method().set_output_data_ptr(output.block.data(), output.bound_nbytes, i));
}

py::object CallableMethod::finish_tensor(Output& output, size_t i, const Tensor& tensor, TensorLibrary library) {
  const Span<const int64_t> sizes = tensor.sizes();
  const Span<const uint8_t> dim_order = runtime::dim_order(tensor);
  if (output.is_given) {
    const TensorView& view = output.given.view();
    if (!std::equal(sizes.begin(), sizes.end(), view.sizes, view.sizes + view.rank)) {
      throw CoreError(Error::InvalidArgument, "out[" + std::to_string(i) + "] is " +
                                                  describe(view.dtype, {view.sizes, view.rank}) + ", the result is " +
                                                  describe(tensor.scalar_type(), sizes));
    }
    if (!output.is_direct) {
      void* const data =
          output.dynamism == TensorShapeDynamism::kDynamicUnbound ? tensor.mutable_data_ptr() : output.block.data();
      copy_strided(dense_view(data, tensor.scalar_type(), sizes, dim_order), view);
    }
    return py::reinterpret_borrow<py::object>(output.given.object());
  }
  // A result far below its bound gets memory of its own size, so that it does not hold the bound's.
  constexpr size_t kWorthKeeping = 64 * 1024;
  const bool unbound = output.dynamism == TensorShapeDynamism::kDynamicUnbound;
  if (unbound || (output.bound_nbytes > kWorthKeeping && tensor.nbytes() < output.bound_nbytes / 2)) {
    OutputBlock exact = OutputBlock::allocate(tensor.nbytes());
    if (tensor.nbytes() != 0) {
      std::memcpy(exact.data(), unbound ? tensor.const_data_ptr() : output.block.data(), tensor.nbytes());
    }
    output.block = std::move(exact);
  }
  return std::move(output.block).to_python(library, tensor.scalar_type(), sizes, dim_order);
}

py::object CallableMethod::take_output(size_t i, TensorLibrary library) {
  const EValue& value = method().get_output(i);
  return value.is_tensor() ? finish_tensor(outputs_[i], i, value.to_tensor(), library) : plain_to_python(value);
}

// The call

/// After a call that gives none: the memory of its outputs goes, so the method must know it no more.
void CallableMethod::drop_outputs() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].tag == Tag::kTensor) {
      static_cast<void>(method().set_output_data_ptr(nullptr, 0, i));
    }
  }
}

void CallableMethod::fail(Error error) {
  drop_outputs();
  if (error == Error::Cancelled && PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
  const runtime::FailureLocation& where = method().failure();
  Diagnostic diagnostic;
  diagnostic.code = error;
  diagnostic.message = last_message();
  diagnostic.method = name_;
  if (where.in_instruction) {
    diagnostic.op = where.step_name.empty() ? where.operator_name : where.step_name;
    diagnostic.module_path = where.module_path;
    diagnostic.file = where.source_file;
    diagnostic.line = static_cast<int32_t>(where.source_line);
    diagnostic.instruction = where.instruction;
    diagnostic.debug_handle = where.debug_handle;
  }
  std::string message = diagnostic.message;
  raise(error, std::move(message), {std::move(diagnostic)});
}

void CallableMethod::set_inputs(py::handle inputs) {
  const py::tuple values = items_of(inputs, "inputs");
  if (values.size() != inputs_.size()) {
    throw CoreError(Error::InvalidArgument, "method '" + name_ + "' takes " + std::to_string(inputs_.size()) +
                                                " inputs, " + std::to_string(values.size()) + " were given");
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    set_input(i, PyTuple_GET_ITEM(values.ptr(), static_cast<py::ssize_t>(i)));
  }
}

py::list CallableMethod::execute(py::handle inputs, py::handle out) {
  const Call call(*this);
  clear_last_message();
  set_inputs(inputs);
  if (!out.is_none()) {
    take_out(out);
  }
  return run(library(), [] { return Error::Ok; });
}

py::list CallableMethod::execute_case(const devtools::BundledProgram& bundle, size_t index,
                                      devtools::Tolerance tolerance) {
  const Call call(*this);
  clear_last_message();
  check(bundle.load_input(method(), index));
  return run(TensorLibrary::of_process(), [&] { return bundle.verify_outputs(method(), index, tolerance); });
}

template <typename Check>
py::list CallableMethod::run(TensorLibrary library, Check check_results) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    prepare_output(i, library);
  }
  Error error = Error::Ok;
  {
    const InterruptScope interruptible(method());
    const py::gil_scoped_release release;
    error = method().execute();
    threads::default_pool()->end_call();
  }
  flush_log_if_waiting();
  return take_outputs(library, error == Error::Ok ? check_results() : error);
}

py::list CallableMethod::take_outputs(TensorLibrary library, Error error) {
  if (error != Error::Ok) {
    fail(error);
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    write_back(i);
  }
  py::list results(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    PyList_SET_ITEM(results.ptr(), static_cast<py::ssize_t>(i), take_output(i, library).release().ptr());
  }
  return results;
}

// The call, watched

namespace {

py::object copied(const Tensor& tensor, TensorLibrary library) {
  if (tensor.const_data_ptr() == nullptr && tensor.nbytes() != 0) {
    return py::none();
  }
  OutputBlock block = OutputBlock::allocate(tensor.nbytes());
  if (tensor.nbytes() != 0) {
    std::memcpy(block.data(), tensor.const_data_ptr(), tensor.nbytes());
  }
  return std::move(block).to_python(library, tensor.scalar_type(), tensor.sizes(), runtime::dim_order(tensor));
}

template <typename Items, typename Convert>
py::list converted(const Items& items, Convert convert) {
  py::list list;
  for (const auto& item : items) {
    list.append(convert(item));
  }
  return list;
}

/// A value as it is now; None for a tensor that has no memory yet.
py::object copied(const EValue& value, TensorLibrary library) {
  const auto tensor = [&](const Tensor& one) { return copied(one, library); };
  const auto same = [](auto item) { return py::cast(item); };
  switch (value.tag()) {
    case Tag::kTensor: return tensor(value.to_tensor());
    case Tag::kTensorList: return converted(value.to_tensor_list(), tensor);
    case Tag::kOptionalTensorList:
      return converted(value.to_optional_tensor_list(),
                       [&](const std::optional<Tensor>& one) { return one ? tensor(*one) : py::object(py::none()); });
    case Tag::kIntList: return converted(value.to_int_list(), same);
    case Tag::kDoubleList: return converted(value.to_double_list(), same);
    case Tag::kBoolList: return converted(value.to_bool_list(), same);
    default: return plain_to_python(value);
  }
}

/// Whether an instruction writes its argument `i`. Of a delegate nobody knows.
bool is_written(const runtime::Kernel* kernel, size_t i) {
  const char* const signature = kernel == nullptr ? nullptr : kernel->signature;
  return signature == nullptr || runtime::signature_writes(signature, i) || signature[i] == 'r' || signature[i] == 'p';
}

}  // namespace

Error CallableMethod::step_observed(const py::function& observer) {
  const size_t index = method().next_instruction();
  const bool is_last = index == method().meta().num_instructions();
  const Span<EValue* const> values = is_last ? Span<EValue* const>() : method().arguments(index);
  py::list before;
  for (const EValue* value : values) {
    before.append(copied(*value, library()));
  }
  Error error = Error::Ok;
  {
    const InterruptScope interruptible(method());
    const py::gil_scoped_release release;
    error = method().step();
  }
  if (error != Error::Ok || values.empty()) {
    return error;
  }
  py::dict written;
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_written(method().kernel(index), i)) {
      written[py::int_(i)] = copied(*values[i], library());
    }
  }
  const runtime::FailureLocation place = method().location(index);
  observer(index, std::string(place.operator_name), before, written, std::string(place.module_path),
           std::string(place.source_file), place.source_line);
  return error;
}

py::list CallableMethod::execute_observed(py::handle inputs, const py::function& observer) {
  const Call call(*this);
  clear_last_message();
  set_inputs(inputs);
  const TensorLibrary library = this->library();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    prepare_output(i, library);
  }
  Error error = Error::Ok;
  try {
    while (error == Error::Ok) {
      error = step_observed(observer);
    }
  } catch (...) {
    method().reset_execution();
    drop_outputs();
    throw;
  }
  threads::default_pool()->end_call();
  flush_log_if_waiting();
  return take_outputs(library, error == Error::EndOfMethod ? Error::Ok : error);
}

void CallableMethod::reset_state() {
  const Call call(*this);
  check(method().reset_state());
}

}  // namespace et::bindings
