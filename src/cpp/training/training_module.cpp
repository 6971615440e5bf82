#include "training/training_module.h"

#include <algorithm>

#include "runtime/host/out_of_memory.h"

namespace et::training {

using runtime::EValue;
using runtime::HostMethod;
using runtime::HostOptions;
using runtime::HostProgram;
using runtime::Method;
using runtime::Tensor;

namespace {

/// Names of the constant methods that describe a training method; published.
constexpr const char* kGradientsIndex = "__et_training_gradients_index_";
constexpr const char* kParametersIndex = "__et_training_parameters_index_";
constexpr const char* kNames = "__et_training_fqn_";

bool has_method(const HostProgram& program, std::string_view name) {
  for (size_t i = 0; i < program.program().num_methods(); ++i) {
    if (program.program().method_name(i) == name) {
      return true;
    }
  }
  return false;
}

/// A constant method, executed.
Result<std::unique_ptr<HostMethod>> run_constant(HostProgram& program, const std::string& name) {
  ET_CHECK_OR_RETURN(has_method(program, name), InvalidProgram, "the program has no method '%s'", name.c_str());
  ET_TRY(std::unique_ptr<HostMethod> method, program.load_method(name));
  ET_RETURN_IF_ERROR(method->method().execute());
  return method;
}

Result<size_t> read_index(HostProgram& program, const std::string& name) {
  ET_TRY(const std::unique_ptr<HostMethod> method, run_constant(program, name));
  const bool is_index = method->method().num_outputs() == 1 && method->method().get_output(0).is_int() &&
                        method->method().get_output(0).to_int() >= 0;
  ET_CHECK_OR_RETURN(is_index, InvalidProgram, "method '%s' does not return the number of an output", name.c_str());
  return static_cast<size_t>(method->method().get_output(0).to_int());
}

}  // namespace

Result<TrainingOutputs> TrainingOutputs::of(HostProgram& program, std::string_view name) try {
  const std::string method(name);
  ET_TRY(const runtime::MethodMeta meta, program.program().method_meta(name));
  ET_CHECK_OR_RETURN(has_method(program, kGradientsIndex + method), InvalidArgument,
                     "method '%s' returns no gradients; export the model with "
                     "torch.export.experimental._export_forward_backward to train it",
                     method.c_str());
  TrainingOutputs outputs;
  ET_TRY(outputs.gradients_begin, read_index(program, kGradientsIndex + method));
  ET_TRY(outputs.parameters_begin, read_index(program, kParametersIndex + method));
  ET_TRY(const std::unique_ptr<HostMethod> names, run_constant(program, kNames + method));
  for (size_t i = 0; i < names->method().num_outputs(); ++i) {
    const EValue& item = names->method().get_output(i);
    ET_CHECK_OR_RETURN(item.is_string(), InvalidProgram, "method '%s%s' returns something that is no name", kNames,
                       method.c_str());
    outputs.names.emplace_back(item.to_string_view());
  }
  const size_t count = outputs.names.size();
  bool fits = outputs.gradients_begin <= meta.num_outputs() &&
              outputs.parameters_begin == outputs.gradients_begin + count &&
              meta.num_outputs() - outputs.gradients_begin == 2 * count;
  for (size_t i = outputs.gradients_begin; fits && i < meta.num_outputs(); ++i) {
    fits = meta.output_tag(i) == runtime::Tag::kTensor;
  }
  ET_CHECK_OR_RETURN(
      fits, InvalidProgram,
      "method '%s' has %zu outputs; its program says that %zu gradients begin at %zu and parameters at %zu",
      method.c_str(), meta.num_outputs(), count, outputs.gradients_begin, outputs.parameters_begin);
  return outputs;
}
ET_NO_MEMORY("what the program says of training method '%.*s'", static_cast<int>(name.size()), name.data())

NamedTensors TrainingOutputs::named(const Method& method, size_t begin) const {
  NamedTensors tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    tensors.emplace(names[i], method.get_output(begin + i).to_tensor());
  }
  return tensors;
}

NamedTensors named_state(const Method& method) {
  NamedTensors tensors;
  for (size_t i = 0; i < method.num_attributes(); ++i) {
    const Method::Attribute attribute = method.attribute(i);
    tensors.emplace(attribute.name, attribute.tensor);
  }
  return tensors;
}

Result<std::unique_ptr<TrainingModule>> TrainingModule::load(const std::string& path, const HostOptions& options) try {
  ET_TRY(std::shared_ptr<HostProgram> program, HostProgram::from_file(path, options));
  return std::make_unique<TrainingModule>(std::move(program));
}
ET_NO_MEMORY("the training module of '%s'", path.c_str())

Result<TrainingModule::Entry*> TrainingModule::entry(std::string_view name, bool for_training) {
  const auto known = entries_.find(name);
  Entry* entry = known == entries_.end() ? nullptr : &known->second;
  if (entry == nullptr) {
    Entry made;
    ET_TRY(made.method, program_->load_method(name));
    entry = &entries_.emplace(name, std::move(made)).first->second;
  }
  if (for_training && entry->outputs.names.empty()) {
    ET_TRY(entry->outputs, TrainingOutputs::of(*program_, name));
  }
  return entry;
}

Result<std::vector<EValue>> TrainingModule::run(Entry& entry, Span<const EValue> inputs, size_t num_outputs) {
  Method& method = entry.method->method();
  std::vector<EValue> outputs;
  outputs.reserve(num_outputs);  // a call that has run gives its outputs
  ET_RETURN_IF_ERROR(method.set_inputs(inputs));
  ET_RETURN_IF_ERROR(method.execute());
  entry.has_gradients = true;
  for (size_t i = 0; i < num_outputs; ++i) {
    outputs.push_back(method.get_output(i));
  }
  return outputs;
}

Result<std::vector<EValue>> TrainingModule::execute_forward_backward(std::string_view name,
                                                                     Span<const EValue> inputs) try {
  ET_TRY(Entry* const found, entry(name, true));
  return run(*found, inputs, found->outputs.gradients_begin);
}
ET_NO_MEMORY("the training method '%.*s'", static_cast<int>(name.size()), name.data())

Result<std::vector<EValue>> TrainingModule::execute(std::string_view name, Span<const EValue> inputs) try {
  ET_TRY(Entry* const found, entry(name, false));
  return run(*found, inputs, found->method->method().num_outputs());
}
ET_NO_MEMORY("the method '%.*s'", static_cast<int>(name.size()), name.data())

Result<NamedTensors> TrainingModule::named_parameters(std::string_view name) try {
  ET_TRY(Entry* const found, entry(name, true));
  return found->outputs.parameters(found->method->method());
}
ET_NO_MEMORY("the parameters of '%.*s'", static_cast<int>(name.size()), name.data())

Result<NamedTensors> TrainingModule::named_gradients(std::string_view name) try {
  ET_TRY(Entry* const found, entry(name, true));
  ET_CHECK_OR_RETURN(found->has_gradients, InvalidState,
                     "method '%.*s' has no gradients before its first execution; call execute_forward_backward",
                     static_cast<int>(name.size()), name.data());
  return found->outputs.gradients(found->method->method());
}
ET_NO_MEMORY("the gradients of '%.*s'", static_cast<int>(name.size()), name.data())

Result<NamedTensors> TrainingModule::named_state(std::string_view name) try {
  ET_TRY(Entry* const found, entry(name, false));
  NamedTensors tensors = training::named_state(found->method->method());
  tensors.merge(found->outputs.parameters(found->method->method()));  // a file need not name them as state
  return tensors;
}
ET_NO_MEMORY("the state of '%.*s'", static_cast<int>(name.size()), name.data())

}  // namespace et::training
