/// Training methods, optimizers and checkpoints as Python classes; executorch_py/training/ gives them their public
/// form.
///
/// Parameters, gradients and what optimizers remember are live views: tensors of the caller's library over the memory
/// of the method or optimizer, which they keep alive.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/errors.h"
#include "bindings/runtime_method.h"
#include "bindings/runtime_registry.h"
#include "bindings/topics.h"
#include "training/checkpoint.h"
#include "training/optimizer.h"
#include "training/training_module.h"

namespace py = pybind11;

namespace et::bindings {
namespace {

using runtime::HostProgram;
using runtime::HostSession;
using runtime::kMaxRank;
using runtime::Tensor;
using runtime::TensorImpl;
using training::NamedTensors;
using training::TrainingOutputs;

/// Name -> live view.
py::dict live_views(const NamedTensors& tensors, const py::object& owner) {
  const TensorLibrary library = TensorLibrary::of_process();
  py::dict views;
  for (const auto& [name, tensor] : tensors) {
    views[py::str(name)] = live_view(library, tensor, owner);
  }
  return views;
}

/// A caller's dict of tensors, borrowed for as long as this lives.
class NamedArguments {
 public:
  /// `what` begins the messages. Errors (CoreError): InvalidType for something that is no name or no tensor;
  /// InvalidArgument for a tensor with strides, or one that is to be written and cannot be.
  NamedArguments(const py::dict& given, const std::string& what, bool written) {
    items_.reserve(given.size());
    for (const auto& [key, value] : given) {
      if (!py::isinstance<py::str>(key)) {
        throw CoreError(Error::InvalidType, what + ": a name is " + std::string(py::repr(key)) + ", must be a string");
      }
      const std::string name = py::cast<std::string>(key);
      items_.push_back(std::make_unique<Item>());
      tensors_.emplace(name, items_.back()->read(value, what + " '" + name + "'", written));
    }
  }
  const NamedTensors& tensors() const { return tensors_; }

 private:
  struct Item {
    BorrowedTensor tensor;
    int64_t strides[kMaxRank];
    uint8_t dim_order[kMaxRank];
    int64_t sizes[kMaxRank];
    TensorImpl impl;

    Tensor read(py::handle value, const std::string& what, bool written) {
      bool is_tensor = false;
      try {
        is_tensor = tensor.borrow(value);
      } catch (const CoreError& error) {
        throw CoreError(error.code(), what + ": " + error.message());
      }
      if (!is_tensor) {
        throw CoreError(Error::InvalidType,
                        what + " is " + std::string(py::repr(py::type::handle_of(value))) + ", must be a tensor");
      }
      const TensorView& view = tensor.view();
      for (size_t d = 0; d < view.rank; ++d) {
        dim_order[d] = static_cast<uint8_t>(d);
      }
      if (!view.is_dense({dim_order, view.rank})) {
        throw CoreError(Error::InvalidArgument, what + " is not contiguous; pass its contiguous copy");
      }
      if (written && view.read_only) {
        throw CoreError(Error::InvalidArgument, what + " is read-only; pass a tensor that can be written");
      }
      std::copy(view.sizes, view.sizes + view.rank, sizes);
      impl = TensorImpl(view.dtype, view.rank, sizes, strides, dim_order, view.data, view.nbytes());
      return Tensor(&impl);
    }
  };

  std::vector<std::unique_ptr<Item>> items_;
  NamedTensors tensors_;
};

/// A method that returns gradients.
class TrainingMethod {
 public:
  TrainingMethod(HostProgram& program, const std::string& name, std::shared_ptr<HostSession> session, uint64_t seed)
      : outputs_(load_without_gil([&] { return TrainingOutputs::of(program, name); })),
        method_(load(program, name, std::move(session), seed), outputs_.gradients_begin) {
    runtime::Method& method = method_.host().method();
    for (size_t i = outputs_.gradients_begin; i < outputs_.parameters_begin; ++i) {
      // Memory that stays where it is, so that a view of an earlier step is never a dangling one.
      gradients_.push_back(OutputBlock::allocate(method.get_output(i).to_tensor().nbytes()));
      check(method.set_output_data_ptr(gradients_.back().data(), gradients_.back().nbytes(), i));
    }
  }

  CallableMethod& method() { return method_; }
  bool has_gradients() const { return has_gradients_; }
  py::list execute(py::handle inputs) {
    py::list outputs = method_.execute(inputs, py::none());
    has_gradients_ = true;
    return outputs;
  }
  NamedTensors parameters() { return outputs_.parameters(method_.host().method()); }
  NamedTensors gradients() { return outputs_.gradients(method_.host().method()); }
  NamedTensors state() {
    NamedTensors tensors = training::named_state(method_.host().method());
    tensors.merge(parameters());
    return tensors;
  }

 private:
  static std::unique_ptr<runtime::HostMethod> load(HostProgram& program, const std::string& name,
                                                   std::shared_ptr<HostSession> session, uint64_t seed) {
    runtime::HostMethodOptions options;
    options.seed = seed;
    return load_without_gil([&] { return program.load_method(name, std::move(session), options); });
  }

  TrainingOutputs outputs_;
  CallableMethod method_;
  std::vector<OutputBlock> gradients_;
  bool has_gradients_ = false;
};

training::SGDOptions to_options(const py::dict& given, training::SGDOptions) {
  return {given["lr"].cast<double>(), given["momentum"].cast<double>(), given["dampening"].cast<double>(),
          given["weight_decay"].cast<double>(), given["nesterov"].cast<bool>()};
}

training::AdamWOptions to_options(const py::dict& given, training::AdamWOptions) {
  const auto betas = given["betas"].cast<std::pair<double, double>>();
  return {given["lr"].cast<double>(),
          betas.first,
          betas.second,
          given["eps"].cast<double>(),
          given["weight_decay"].cast<double>(),
          given["amsgrad"].cast<bool>()};
}

/// An optimizer and the tensors of its callers.
template <typename Rule>
class HeldOptimizer {
 public:
  using Optimizer = training::Optimizer<Rule>;

  void add_param_group(const py::dict& parameters, const py::dict& options) {
    auto given = std::make_unique<NamedArguments>(parameters, std::string(Rule::kName) + ", parameter", true);
    check(optimizer_.add_param_group(given->tensors(), to_options(options, typename Rule::Options())));
    parameters_.push_back(std::move(given));
  }
  void step(const py::dict& gradients, const py::list& options) {
    const NamedArguments given(gradients, std::string(Rule::kName) + ", gradient", false);
    set_options(options);
    check(optimizer_.step(given.tensors()));
  }
  NamedTensors state(const py::list& options) {
    set_options(options);
    return unwrap(optimizer_.state());
  }

 private:
  void set_options(const py::list& options) {
    for (size_t i = 0; i < options.size() && i < optimizer_.param_groups().size(); ++i) {
      optimizer_.param_groups()[i].options = to_options(options[i], typename Rule::Options());
    }
  }

  std::vector<std::unique_ptr<NamedArguments>> parameters_;
  Optimizer optimizer_;
};

template <typename Rule>
void bind_optimizer(py::module_& module) {
  using Held = HeldOptimizer<Rule>;
  py::class_<Held>(module, Rule::kName, "An optimizer; its options are those of the Python class of that name")
      .def(py::init<>())
      .def("add_param_group", &Held::add_param_group, py::arg("parameters"), py::arg("options"))
      .def("step", &Held::step, py::arg("gradients"), py::arg("options"))
      .def(
          "state",
          [](const py::object& self, const py::list& options) {
            return live_views(self.cast<Held&>().state(options), self);
          },
          py::arg("options"), "What it remembers: name -> live view");
}

}  // namespace

void init_training(py::module_& module) {
  py::class_<TrainingMethod>(module, "TrainingMethod", "A method that returns gradients")
      .def(py::init<HostProgram&, const std::string&, std::shared_ptr<HostSession>, uint64_t>(), py::arg("program"),
           py::arg("name"), py::arg("session") = nullptr, py::arg("seed") = 0)
      .def("execute", &TrainingMethod::execute, py::arg("inputs"), "Runs the method; a list with the model's outputs")
      .def(
          "cancel", [](TrainingMethod& self) { self.method().cancel(); }, "Makes a running execution end soon")
      .def_property_readonly("has_gradients", &TrainingMethod::has_gradients, "Whether it has been executed")
      .def_property_readonly(
          "parameters",
          [](const py::object& self) { return live_views(self.cast<TrainingMethod&>().parameters(), self); },
          "Name -> live view")
      .def_property_readonly(
          "gradients",
          [](const py::object& self) { return live_views(self.cast<TrainingMethod&>().gradients(), self); },
          "Name -> live view; the same memory at every execution")
      .def_property_readonly(
          "state", [](const py::object& self) { return live_views(self.cast<TrainingMethod&>().state(), self); },
          "Parameters and buffers: name -> live view");
  bind_optimizer<training::SGDRule>(module);
  bind_optimizer<training::AdamWRule>(module);
  module.def(
      "save_ptd",
      [](const std::string& path, const py::dict& tensors) {
        const NamedArguments given(tensors, "a checkpoint's tensor", false);
        check(training::save_ptd(path, given.tensors()));
      },
      py::arg("path"), py::arg("tensors"), "Writes tensors to a .ptd file, whole or not at all");
  module.def(
      "load_ptd",
      [](const std::string& path, const py::dict& tensors) {
        const NamedArguments given(tensors, "a checkpoint's tensor", true);
        check(training::load_ptd(path, given.tensors()));
      },
      py::arg("path"), py::arg("tensors"), "Fills tensors from a .ptd file, all or none");
}

}  // namespace et::bindings
